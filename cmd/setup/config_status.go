package setup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newStatusCmd(global *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which process has which published configuration in force",
		Long: `Status shows the version in force, and the processes that have followed the
store in the last 30 seconds: which version each has, since when, and why one
refuses the version in force. A server that goes by a file "differs" while its
limits are not those of the version. The exit code is 0 if no process lags, else
1.`,
		Example: "  limitctl config status\n  limitctl config status --context prod -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), global) },
	}
}

func runStatus(ctx context.Context, g *cli.Globals) error {
	p, err := openToRead(ctx, g)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	if _, err := p.state.InForce(); err != nil {
		return err
	}
	bounded, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	processes, err := published.Processes(bounded, p.table)
	if err != nil {
		return err
	}
	a := &statusAnswer{now: g.Env.Now(), SchemaVersion: output.SchemaVersion, Version: p.state.Head.Version,
		Hash:      p.state.Head.Hash,
		Processes: []processEntry{}}
	for _, line := range p.state.Lines {
		if line.Version == a.Version && line.PutInForce() {
			at := output.UTC(line.At)
			a.At, a.By, a.Reason = &at, line.By, line.Reason
		}
	}
	for _, process := range processes {
		e := processEntry{process, output.Milliseconds(process.Seen), process.Has(a.Version, a.Hash)}
		e.Since = output.UTC(e.Since)
		if !e.Current && !e.Compares {
			a.Lagging++
		}
		a.Processes = append(a.Processes, e)
	}
	if err := g.Print(a); err != nil {
		return err
	}
	if a.Lagging > 0 {
		return cli.ErrDenied
	}
	return nil
}

// statusAnswer is the answer of status.
type statusAnswer struct {
	SchemaVersion int            `json:"schema_version"`
	Version       int64          `json:"version"`
	Hash          string         `json:"hash"`
	At            *time.Time     `json:"at,omitempty"` // when it was published
	By            string         `json:"by,omitempty"`
	Reason        string         `json:"reason,omitempty"`
	Lagging       int            `json:"lagging"` // how many processes have another version
	Processes     []processEntry `json:"processes"`
	now           time.Time
}

type processEntry struct {
	published.Process
	SeenAgoMS int64 `json:"seen_ago_ms"` // since its last report
	Current   bool  `json:"current"`
}

// Items implements output.Answer.
func (a *statusAnswer) Items() any { return a.Processes }

// Print implements output.Answer.
func (a *statusAnswer) Print(p *output.Printer) {
	text := fmt.Sprintf("version %d is in force", a.Version)
	if a.At != nil {
		text += fmt.Sprintf(", published %s by %s: %s", cli.Clock(*a.At, a.now), output.Printable(a.By),
			output.Printable(a.Reason))
	}
	p.Line("%s", text)
	if len(a.Processes) == 0 {
		p.Line("no process follows this store")
		return
	}
	var rows [][]output.Cell
	for i := range a.Processes {
		e := &a.Processes[i]
		state := output.Cell{Text: "✓", Style: output.Calm}
		switch {
		case !e.Current && e.Compares:
			state = output.Cell{Text: "differs", Style: output.Near}
		case !e.Current:
			state = output.Cell{Text: "lags", Style: output.AtEnd}
		}
		since := cli.Clock(e.Since, a.now)
		if e.Since.IsZero() { // it goes by a file
			since = "-"
		}
		rows = append(rows, []output.Cell{{Text: e.Name}, {Text: e.Host}, {Text: cli.Number(int64(e.PID))},
			{Text: e.VersionText()}, state,
			{Text: since}, {Text: output.Duration(time.Duration(e.SeenAgoMS)*time.Millisecond) + " ago"}})
	}
	p.Table([]output.Column{{Header: "PROCESS", Shrinks: 10, Names: true}, {Header: "HOST", Shrinks: 8, Names: true},
		{Header: "PID", Right: true, Drops: 2}, {Header: "VERSION", Right: true},
		{Header: "STATE"}, {Header: "SINCE", Drops: 1}, {Header: "SEEN"}}, rows)
	for i := range a.Processes {
		if e := &a.Processes[i]; e.Error != "" {
			p.Line("%s on %s: %s", output.Printable(e.Name), output.Printable(e.Host), output.Printable(e.Error))
		}
	}
}
