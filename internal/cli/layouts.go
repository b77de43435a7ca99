package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// LayoutOptions say by which layouts the keys of other limiters are read.
type LayoutOptions struct {
	// LayoutName is a name, several behind commas, auto, or limitctl; empty for those of the
	// context in use.
	LayoutName string
	// SaidLimit is the limit where the keys do not hold it; empty for that of the configuration.
	SaidLimit string
}

// AddLayoutFlags adds --layout and --limit.
func (l *LayoutOptions) AddLayoutFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&l.LayoutName, "layout", "",
		"read the keys of another limiter, by its `NAME` or auto; see docs/layouts.md")
	flags.StringVar(&l.SaidLimit, "limit", "",
		"with --layout, the `LIMIT` if it is not in the keys, such as 10/1m,burst=20")
	cmd.RegisterFlagCompletionFunc("layout", cobra.NoFileCompletions)
}

// Use makes the command work with the keys of the layouts that are asked for, if any are.
func (l *LayoutOptions) Use(g *Globals) error {
	names, err := l.names(g)
	if err != nil {
		return err
	}
	g.Layouts, err = l.sourcesOf(g, names)
	g.LayoutsName = strings.Join(names, ",")
	return err
}

// names returns which layouts are asked for: those of --layout, else of the context in use. There
// are none for limitctl's own keys.
func (l *LayoutOptions) names(g *Globals) ([]string, error) {
	s, err := g.Settings()
	if err != nil {
		return nil, err
	}
	var names []string
	if l.LayoutName != "" {
		names = strings.Split(l.LayoutName, ",")
		if err := config.CheckLayouts(names); err != nil {
			return nil, Usagef("--layout: %s", err)
		}
	} else if s.Context != nil {
		names = s.Context.Layouts
	}
	if slices.Equal(names, []string{config.OwnLayout}) {
		names = nil
	}
	if len(names) > 0 && !isRedis(s.Store) {
		return nil,
			Usagef("the store %s holds limits of limitctl alone; --layout needs a Redis, as --store "+
				"redis://HOST:PORT names it",
				output.Printable(s.Store))
	}
	if len(names) == 0 && l.SaidLimit != "" {
		return nil, Usagef("--limit is for keys of another limiter that do not hold their limit; give it with --layout")
	}
	return names, nil
}

// sourcesOf returns the sources of layouts by their names: what the configuration says of some
// of their keys, and then all keys of theirs. A --limit is that of all.
func (l *LayoutOptions) sourcesOf(g *Globals, names []string) (sources layouts.Sources, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	var all layouts.Sources
	for _, name := range names {
		named := layouts.All()
		if name != layouts.Auto {
			layout, err := layouts.Named(name)
			if err != nil {
				return nil, err
			}
			named = []layouts.Layout{layout}
		}
		for _, layout := range named {
			all = append(all, layouts.Source{Layout: layout})
		}
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	for _, of := range c.Layouts {
		if slices.ContainsFunc(all, func(s layouts.Source) bool { return s.Layout == of.Layout }) {
			sources = append(sources, of)
		}
	}
	sources = append(sources, all...)
	if l.SaidLimit == "" {
		return sources, nil
	}
	said, err := layouts.ParseLimit(l.SaidLimit)
	if err != nil {
		return nil, Usagef("--limit: %s", err)
	}
	for i := range sources {
		sources[i].Limit = said
	}
	return sources, nil
}

// text is the layouts in use and the limit in words.
func (l *LayoutOptions) text(g *Globals) string {
	if len(g.Layouts) == 0 {
		return ""
	}
	words := " " + shell.Command("--layout", g.LayoutsName)
	if l.SaidLimit != "" {
		words += " " + shell.Command("--limit", l.SaidLimit)
	}
	return words
}

// BeyondOf is what the deletion of a layout's keys does not reach.
func BeyondOf(layout string) string {
	l, err := layouts.Named(layout)
	if err != nil {
		return ""
	}
	return l.Info().Beyond
}
