package setup

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

func newConfigShowCmd(global *cli.Globals) *cobra.Command {
	origin := false
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what is configured, with all defaults",
		Long: `Show prints the settings that commands use here: the store, the prefix, and all
policies, layouts and contexts. With --origin, it shows where each value comes
from: a line of a file, a flag, an environment variable, or the default.`,
		Example: "  limitctl config show\n  limitctl config show --origin\n  limitctl config show -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, args []string) error { return runConfigShow(global, origin) },
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from")
	return cmd
}

func runConfigShow(g *cli.Globals, origin bool) error {
	c, err := g.Config()
	if err != nil {
		return err
	}
	s, err := g.Settings()
	if err != nil {
		return err
	}
	timeout := ""
	if g.Changed("timeout") {
		timeout = "flag --timeout"
	}
	a := &showAnswer{origins: origin, SchemaVersion: output.SchemaVersion, Files: c.Read, Context: s.Access().Context}
	a.add(c, "store", redisserver.RedactURL(s.Store.Value), s.Store.Origin)
	for _, setting := range config.Settings(c) {
		if setting.Name == "prefix" {
			a.add(c, "prefix", s.Prefix.Value, s.Prefix.Origin)
			a.add(c, "timeout", g.Timeout.String(), timeout)
			continue
		}
		a.add(c, setting.Name, setting.Value, "")
	}
	for _, x := range c.Contexts {
		at := "contexts." + x.Name + "."
		a.add(c, at+"store", redisserver.RedactURL(x.Store), "")
		for _, field := range []config.Setting{
			{Name: "prefix", Value: x.Prefix}, {Name: "layouts", Value: strings.Join(x.Layouts, ", ")},
			{Name: "password_file", Value: x.PasswordFile}, {Name: "password_env", Value: x.PasswordEnv}} {
			if field.Value != "" {
				a.add(c, at+field.Name, field.Value, "")
			}
		}
		a.add(c, at+"read_only", fmt.Sprint(x.ReadOnly), "")
		a.add(c, at+"protected", fmt.Sprint(x.Protected), "")
	}
	return g.Print(a)
}

// showAnswer is the configuration in effect, with all defaults.
type showAnswer struct {
	SchemaVersion int           `json:"schema_version"`
	Files         []string      `json:"files"`
	Context       string        `json:"context,omitempty"`
	Settings      []showSetting `json:"settings"`
	origins       bool
}

type showSetting struct {
	config.Setting
	Origin string `json:"origin"` // FILE:LINE, a flag, an environment variable or default
}

// add adds a value with its origin: the given one, that of its path in the file, or of what it follows from, or the
// default.
func (a *showAnswer) add(c *config.Config, path, value, origin string) {
	above, name := path[:strings.LastIndexByte(path, '.')+1], path[strings.LastIndexByte(path, '.')+1:]
	others := map[string][]string{"local_share": {"local_share"}, "limit": {above + "burst", above + "algorithm"},
		"layouts": {above + "layout"}}[name]
	for _, path := range append([]string{path}, others...) {
		if at, said := c.Origin(path); said && origin == "" {
			origin = at.String()
		}
	}
	a.Settings = append(a.Settings, showSetting{config.Setting{Name: path, Value: value}, cmp.Or(origin, "default")})
}

// Items implements output.Answer.
func (a *showAnswer) Items() any { return a.Settings }

// Print implements output.Answer.
func (a *showAnswer) Print(p *output.Printer) {
	columns := []output.Column{{Header: "SETTING", Shrinks: 20}, {Header: "VALUE", Shrinks: 16}}
	if a.origins {
		columns = append(columns, output.Column{Header: "ORIGIN", Shrinks: 16})
	}
	var rows [][]output.Cell
	for _, s := range a.Settings {
		cells := []output.Cell{{Text: s.Name}, {Text: s.Value}}
		if a.origins {
			cells = append(cells, output.Cell{Text: s.Origin, Style: output.Faint})
		}
		rows = append(rows, cells)
	}
	p.Table(columns, rows)
}
