package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutOptions say by which layouts the keys of other limiters are read.
type layoutOptions struct {
	// layoutName is a name, several behind commas, auto, or limitctl; empty for those of the
	// context in use.
	layoutName string
	// saidLimit is what the keys do not tell; empty for what the configuration says.
	saidLimit string
}

func (l *layoutOptions) addLayoutFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&l.layoutName, "layout", "", "read the keys of another limiter, by its `NAME` or auto; see limitctl layouts")
	flags.StringVar(&l.saidLimit, "limit", "", "with --layout, the `LIMIT` that the keys do not tell, such as 10/1m,burst=20")
	cmd.RegisterFlagCompletionFunc("layout", completeLayouts)
	cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

// completeLayouts offers the names of layouts to a shell, also behind a comma.
func completeLayouts(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndex(begun, ",")+1]
	var names []string
	for _, name := range layoutNames() {
		if before == "" || name != foreign.Auto && name != config.OwnLayout && !slices.Contains(strings.Split(before, ","), name) {
			names = append(names, before+name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// layoutNames are what --layout takes.
func layoutNames() []string {
	names := []string{foreign.Auto}
	for _, layout := range foreign.All() {
		names = append(names, layout.Info().Name)
	}
	return append(names, config.OwnLayout)
}

// use makes the command work with the keys of the layouts that are asked for, if any are.
func (l *layoutOptions) use(g *globalOptions) error {
	names, err := l.names(g)
	if err != nil {
		return err
	}
	g.layouts, err = l.sourcesOf(g, names)
	g.layoutsName = strings.Join(names, ",")
	return err
}

// names returns which layouts are asked for: those of --layout, else of the context in use. There
// are none for limitctl's own keys.
func (l *layoutOptions) names(g *globalOptions) ([]string, error) {
	g.ofAnyKeys = true
	g.ownKeysAsked = l.layoutName == config.OwnLayout
	var names []string
	if l.layoutName != "" {
		names = strings.Split(l.layoutName, ",")
		if err := config.CheckLayouts(names); err != nil {
			return nil, usagef("--layout: %s", err)
		}
	} else {
		s, err := g.settings()
		if err != nil {
			return nil, err
		}
		if s.context != nil {
			names = s.context.Layouts
		}
	}
	if slices.Equal(names, []string{config.OwnLayout}) {
		names = nil
	}
	if len(names) > 0 {
		if err := checkHasLayouts(g); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 && l.saidLimit != "" {
		return nil, usagef("--limit says what the keys of another limiter do not tell; give it with --layout")
	}
	return names, nil
}

// parseStoreKeys reads a pattern of subjects or store keys of other limiters.
func parseStoreKeys(text string, exact bool) (store.Pattern, error) {
	if exact {
		return store.ExactStoreKeyPattern(text)
	}
	return store.ParseStoreKeyPattern(text)
}

// checkHasLayouts reports that the chosen store cannot have keys of other limiters.
func checkHasLayouts(g *globalOptions) error {
	s, err := g.settings()
	if err != nil || isRedis(s.store.value) {
		return err
	}
	backend := "the store " + output.Printable(s.store.value)
	if s.store.origin == byDefault {
		backend = "no --store is given, and the file that is used then"
	}
	return usagef("%s holds limits of limitctl alone; --layout is for the keys of other limiters in a Redis, "+
		"as --store redis://HOST:PORT names it", backend)
}

// sourcesOf returns the sources of layouts by their names: what the configuration says of some
// of their keys, and then all keys of theirs. A --limit is that of all.
func (l *layoutOptions) sourcesOf(g *globalOptions, names []string) (foreign.Sources, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, err := sourcesOf(names)
	if err != nil {
		return nil, err
	}
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	var sources foreign.Sources
	for i := range c.Layouts {
		of := &c.Layouts[i].Source
		if slices.ContainsFunc(all, func(s foreign.Source) bool { return s.Layout == of.Layout }) {
			sources = append(sources, *of)
		}
	}
	sources = append(sources, all...)
	if l.saidLimit == "" {
		return sources, nil
	}
	said, err := foreign.ParseLimit(l.saidLimit)
	if err != nil {
		return nil, usagef("--limit: %s", err)
	}
	for i := range sources {
		sources[i].Limit = said
	}
	return sources, nil
}

// text is the layouts in use and the limit in words.
func (l *layoutOptions) text(g *globalOptions) string {
	if len(g.layouts) == 0 {
		return ""
	}
	words := " " + shell.Command("--layout", g.layoutsName)
	if l.saidLimit != "" {
		words += " " + shell.Command("--limit", l.saidLimit)
	}
	return words
}

// sourcesOf returns the sources of layouts by their names, or of all for auto, with nothing said
// of their keys.
func sourcesOf(names []string) (sources foreign.Sources, err error) {
	for _, name := range names {
		if name == foreign.Auto {
			for _, layout := range foreign.All() {
				sources = append(sources, foreign.Source{Layout: layout})
			}
			continue
		}
		layout, err := foreign.Named(name)
		if err != nil {
			return nil, err
		}
		sources = append(sources, foreign.Source{Layout: layout})
	}
	return sources, nil
}
