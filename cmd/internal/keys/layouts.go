package keys

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// NewLayoutsCmd makes limitctl layouts.
func NewLayoutsCmd(global *cli.Globals) *cobra.Command {
	return cli.ListsNames(&cobra.Command{
		Use:   "layouts [NAME]",
		Short: "List the rate limiters whose keys limitctl can read",
		Long: `Layouts lists the rate limiters whose keys in Redis limitctl can read, reset and
migrate: the names for --layout and migrate --from, what writes such keys, an
example of a key, what --limit has to give because it is not in the keys, and
what a reset does not reach. With NAME it shows all that is known of that
layout.`,
		Example: `  limitctl layouts
  limitctl layouts traefik
  limitctl layouts -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("layouts takes one NAME, or none for all")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runLayouts(global, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return cli.LayoutNames()[1:], cobra.ShellCompDirectiveNoFileComp
		},
	})
}

func runLayouts(g *cli.Globals, args []string) error {
	answer := &layoutsAnswer{SchemaVersion: output.SchemaVersion}
	if len(args) == 0 {
		for _, layout := range layouts.All() {
			answer.Layouts = append(answer.Layouts, describeLayout(layout))
		}
		return g.Print(answer)
	}
	if args[0] == "auto" {
		return cli.Usagef("auto is no layout of its own: --layout auto finds which one wrote each key; `limitctl layouts` lists them")
	}
	layout, err := layouts.Named(args[0])
	if err != nil {
		return err
	}
	answer.Layouts, answer.one = []layoutFacts{describeLayout(layout)}, true
	return g.Print(answer)
}

// layoutFacts is a layout in an answer.
type layoutFacts struct {
	Name   string `json:"name"`
	Writer string `json:"writer"`
	// Example is a key, and Type the type of its value.
	Example  string   `json:"example"`
	Type     string   `json:"type"`
	Prefixes []string `json:"prefixes"` // the usual prefixes of keys; empty if there are none
	Needs    string   `json:"needs"`    // what the keys do not hold
	Beyond   string   `json:"beyond"`   // what a reset does not reach; empty if nothing
	// SetsRemaining: reset --to-remaining works.
	SetsRemaining bool   `json:"sets_remaining"`
	Source        string `json:"source"` // where the facts are from; empty for a common handwritten layout
}

func describeLayout(layout layouts.Layout) layoutFacts {
	info := layout.Info()
	_, sets := layout.(layouts.Setter)
	return layoutFacts{Name: info.Name, Writer: info.Writer, Example: info.Example, Type: info.Type,
		Prefixes: append([]string{}, info.Prefixes...), Needs: info.Needs, Beyond: info.Beyond, SetsRemaining: sets, Source: info.Source}
}

// layoutsAnswer is a list of layouts.
type layoutsAnswer struct {
	SchemaVersion int           `json:"schema_version"`
	Layouts       []layoutFacts `json:"layouts"`
	one           bool          // the command line names one
}

// Lines implements output.Answer.
func (a *layoutsAnswer) Lines() []any { return output.Lines(a.Layouts) }

// Records implements output.Answer.
func (a *layoutsAnswer) Records() [][]string {
	records := [][]string{{"name", "writer", "example", "type", "prefixes", "needs", "beyond", "sets_remaining", "source"}}
	for i := range a.Layouts {
		l := &a.Layouts[i]
		sets := "false"
		if l.SetsRemaining {
			sets = "true"
		}
		records = append(records, []string{l.Name, l.Writer, l.Example, l.Type, strings.Join(l.Prefixes, " "), l.Needs, l.Beyond, sets,
			l.Source})
	}
	return records
}

// Print implements output.Answer.
func (a *layoutsAnswer) Print(p *output.Printer) {
	if a.one {
		a.Layouts[0].print(p)
		return
	}
	var rows [][]output.Cell
	for i := range a.Layouts {
		l := &a.Layouts[i]
		reaches := "all"
		if l.Beyond != "" {
			reaches = "not all"
		}
		needs, example := l.Needs, output.Printable(l.Example)
		if end := strings.IndexAny(needs, ",;"); end >= 0 { // the rest is of special cases
			needs = needs[:end] + ", …"
		}
		if p.Width == 0 { // in a pipe or a file nothing else keeps a row from being very long
			example = output.Cut(example, longestExample)
		}
		rows = append(rows, []output.Cell{{Text: l.Name}, {Text: needs}, {Text: reaches}, {Text: example}, {Text: l.Writer}})
	}
	p.Table([]output.Column{{Header: "NAME"}, {Header: "NEEDS"}, {Header: "A RESET REACHES", Drops: 2},
		{Header: "EXAMPLE KEY", Shrinks: longestExample, Drops: 1}, {Header: "WRITTEN BY", Shrinks: 26}}, rows)
	p.Line("limitctl layouts NAME shows all about one")
}

// longestExample is how many columns of a key are shown in the list where there is little room.
const longestExample = 30

// print shows all facts about a layout.
func (l *layoutFacts) print(p *output.Printer) {
	prefixes := "anything: name the keys by a pattern, or in the configuration"
	if len(l.Prefixes) > 0 {
		prefixes = strings.Join(l.Prefixes, ", ")
	}
	beyond := "nothing: deleting the keys is the whole reset"
	if l.Beyond != "" {
		beyond = l.Beyond
	}
	remaining := "no: such a limit can only be reset whole"
	if l.SetsRemaining {
		remaining = "yes"
	}
	p.Line("%s", l.Name)
	for _, fact := range [][2]string{{"written by", l.Writer}, {"example key", output.Printable(l.Example)}, {"type", l.Type},
		{"keys begin with", prefixes}, {"needs", l.Needs}, {"--to-remaining", remaining}, {"a reset does not reach", beyond},
		{"source", l.Source}} {
		if fact[1] != "" {
			p.Line("  %-22s  %s", fact[0], fact[1])
		}
	}
}
