package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// layoutOptions say by which layout the keys of other limiters are read.
type layoutOptions struct {
	layoutName string
	saidLimit  string
}

func (l *layoutOptions) addLayoutFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&l.layoutName, "layout", "", "read the keys of another limiter, by its `NAME` or auto; see limitctl layouts")
	flags.StringVar(&l.saidLimit, "limit", "", "with --layout, the `LIMIT` that the keys do not tell, such as 10/1m,burst=20")
	cmd.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions(layoutNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

func layoutNames() []string {
	names := []string{foreign.Auto}
	for _, layout := range foreign.All() {
		names = append(names, layout.Info().Name)
	}
	return names
}

// use makes the command work with the keys of the layout, if one was asked for.
func (l *layoutOptions) use(g *globalOptions) error {
	if l.layoutName == "" {
		if l.saidLimit != "" {
			return usagef("--limit says what the keys of another limiter do not tell; give it with --layout")
		}
		return nil
	}
	said, err := parseSaidLimit(l.saidLimit)
	if err != nil {
		return err
	}
	g.layouts, err = sourcesOf(l.layoutName, said)
	return err
}

// text is the flags in words.
func (l *layoutOptions) text() string {
	if l.layoutName == "" {
		return ""
	}
	words := " " + shell.Command("--layout", l.layoutName)
	if l.saidLimit != "" {
		words += " " + shell.Command("--limit", l.saidLimit)
	}
	return words
}

// parseSaidLimit reads what an operator says of a limit, whose algorithm is the layout's unless
// the text has one.
func parseSaidLimit(text string) (limiter.Limit, error) {
	if text == "" {
		return limiter.Limit{}, nil
	}
	limit, err := limiter.ParseLimit(text)
	if err != nil {
		return limit, usagef("--limit: %s", err)
	}
	if !strings.Contains(text, ":") {
		limit.Algorithm = 0
	}
	return limit, nil
}

// sourcesOf returns the sources of a layout by its name, or of all for auto.
func sourcesOf(name string, said limiter.Limit) (foreign.Sources, error) {
	if name != foreign.Auto {
		layout, err := foreign.Named(name)
		return foreign.Sources{{Layout: layout, Limit: said}}, err
	}
	var sources foreign.Sources
	for _, layout := range foreign.All() {
		sources = append(sources, foreign.Source{Layout: layout, Limit: said})
	}
	return sources, nil
}
