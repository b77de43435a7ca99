package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
)

func newHistoryCmd(global *cli.Globals) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show who published which configuration, when and why",
		Long: `History shows the published versions, the latest last: when, by whom, and why.
The store has the text of those that are KEPT, which config fetch shows and
config rollback brings back.`,
		Example: "  limitctl config history\n  limitctl config history --limit 100 -o json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return cli.Usagef("--limit %d has to be at least 1", limit)
			}
			return runHistory(cmd.Context(), global, limit)
		},
	}
	cli.NumberFlag(cmd.Flags(), &limit, "limit", "", 20, "show the latest `N` versions")
	return cmd
}

func runHistory(ctx context.Context, g *cli.Globals, limit int) error {
	p, err := openToRead(ctx, g)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	a := &historyAnswer{now: g.Env.Now(), SchemaVersion: output.SchemaVersion, Version: p.state.Head.Version,
		History: []historyEntry{}}
	lines := p.state.Lines
	for _, line := range lines[max(0, len(lines)-limit):] {
		a.History = append(a.History, historyEntry{line, output.UTC(line.At), p.state.Kept(line.Version)})
	}
	if p.state.Broken != nil {
		g.Note("warning: %s; it is not known which version is in force", cli.Message(p.state.Broken))
	}
	if len(a.History) == 0 && !g.Quiet {
		g.Note("nothing was published in %s yet", output.Printable(p.settings.Place(p.where)))
	}
	return g.Print(a)
}

// openToRead opens the chosen store.
func openToRead(ctx context.Context, g *cli.Globals) (*place, error) {
	s, err := g.Settings()
	if err != nil {
		return nil, err
	}
	return openPlace(ctx, g, s, g.OpenToRead)
}

// historyAnswer is the answer of history.
type historyAnswer struct {
	SchemaVersion int            `json:"schema_version"`
	Version       int64          `json:"version"` // in force, 0 for none
	History       []historyEntry `json:"history"`
	now           time.Time
}

type historyEntry struct {
	published.Line
	At   time.Time `json:"at"`
	Kept bool      `json:"kept"` // whether the store still has its text
}

// did is what was done, for people.
func (e *historyEntry) did() string {
	if e.Of != 0 {
		return fmt.Sprintf("%s to %d", e.Did, e.Of)
	}
	return e.Did
}

// Items implements output.Answer.
func (a *historyAnswer) Items() any { return a.History }

// Print implements output.Answer.
func (a *historyAnswer) Print(p *output.Printer) {
	if len(a.History) == 0 {
		return
	}
	var rows [][]output.Cell
	for i := range a.History {
		e := &a.History[i]
		version, style, kept := cli.Number(e.Version), output.Plain, "no"
		if e.Version == a.Version && e.PutInForce() {
			version, style = version+" in force", output.Bold
		}
		if e.Kept {
			kept = "yes"
		}
		rows = append(rows, []output.Cell{{Text: version, Style: style}, {Text: cli.Clock(e.At, a.now)}, {Text: e.By},
			{Text: e.did()},
			{Text: kept}, {Text: e.Reason}})
	}
	p.Table([]output.Column{{Header: "VERSION"}, {Header: "WHEN"}, {Header: "BY", Shrinks: 8}, {Header: "DID"},
		{Header: "KEPT", Drops: 1},
		{Header: "WHY", Shrinks: 10}}, rows)
}
