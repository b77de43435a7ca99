package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newStatusCmd(global *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which process has which published configuration in force",
		Long: `Status shows the version in force, and the processes that follow the store:
which version each has, since when, and how long ago it reported. Processes
report every ten seconds and after each change. Those that have not reported for
30 seconds are left out. Up to 500 processes are shown.

While a version is tried (config publish --shadow or --percent), status also
adds up what the processes count: how many takes both versions judged, how many
the next one would deny anew or no longer, and whose they are most often. A
process counts since it began to try the version, and loses that when it ends.

A process lags if it has another version, or does not try the one that is tried.
If it refuses the one in force, for
instance because it is an older program, status shows why.

The exit code is 0 if no process lags, else 1.`,
		Example:           "  limitctl config status\n  limitctl config status --context prod -o json",
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), global) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	return cmd
}

func runStatus(ctx context.Context, g *cli.Globals) error {
	p, err := openToRead(ctx, g)
	if err != nil {
		return err
	}
	defer p.backend.Close()
	if p.state.Was == "" {
		return published.ErrNothing
	}
	bounded, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	processes, err := published.Processes(bounded, p.table)
	if err != nil {
		return err
	}
	next, err := nextOf(bounded, p, processes)
	if err != nil {
		return err
	}
	a := &statusAnswer{Next: next, now: g.Env.Now(),
		SchemaVersion: output.SchemaVersion, Version: p.state.Head.Version, Hash: p.state.Head.Hash,
		Processes: []processEntry{}}
	for _, line := range p.state.Lines {
		if line.Version == a.Version && line.Did != didShadow && line.Did != didCanary {
			at := output.UTC(line.At)
			a.At, a.By, a.Reason = &at, line.By, line.Reason
		}
	}
	for _, process := range processes {
		e := processEntry{Name: process.Name, Host: process.Host, PID: process.PID, Program: process.Program, Version: process.Version,
			Hash: process.Hash, Since: output.UTC(process.Since), SeenAgoMS: output.Milliseconds(process.Seen), Refused: process.Refused,
			Error: process.Error, Next: process.Next, Current: process.Version == a.Version && process.Hash == a.Hash &&
				process.Next == next.live()}
		if !e.Current {
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

// nextOf returns the version that is tried, with what the processes have counted; nil for none.
func nextOf(ctx context.Context, p *place, processes []published.Process) (*nextEntry, error) {
	c := &p.state.Head.Next
	if !c.Exists() {
		return nil, nil
	}
	e := &nextEntry{Version: c.Version, Hash: c.Hash, Shadow: c.Share == 0, Percent: float64(c.Share) / 100, Attribute: c.By,
		Until: untilOf(c.Until), tries: tries(c)}
	if e.Until != nil {
		now, err := p.table.ConfigTime(ctx)
		if err != nil {
			return nil, err
		}
		e.Ended = now >= c.Until
	}
	for i := range processes {
		if f := processes[i].Figures; f != nil && processes[i].Next == c.Version {
			e.Processes++
			e.Add(f, shownSubjects)
		}
	}
	for _, line := range p.state.Lines {
		if line.Version == c.Version {
			at := output.UTC(line.At)
			e.At, e.By, e.Reason = &at, line.By, line.Reason
		}
	}
	return e, nil
}

// shownSubjects is the most subjects of each kind that are shown.
const shownSubjects = 10

// nextEntry is a version that is tried.
type nextEntry struct {
	Version   int64      `json:"version"`
	Hash      string     `json:"hash"`
	Shadow    bool       `json:"shadow"`
	Percent   float64    `json:"percent,omitempty"`
	Attribute string     `json:"by_attribute,omitempty"`
	Until     *time.Time `json:"until,omitempty"` // by the store's clock
	Ended     bool       `json:"ended"`
	At        *time.Time `json:"at,omitempty"`
	By        string     `json:"by,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Processes int        `json:"processes"` // that try it
	published.Figures
	tries string
}

// live returns the number of the version that processes should try now, 0 for none.
func (e *nextEntry) live() int64 {
	if e == nil || e.Ended {
		return 0
	}
	return e.Version
}

// print shows what was counted.
func (e *nextEntry) print(p *output.Printer) {
	switch {
	case e.Ended:
		p.Line("version %d was tried %s until %s, and is no longer; `limitctl config promote` puts it in force", e.Version, e.tries,
			e.Until.Format(time.RFC3339))
		return
	case e.Until != nil:
		p.Line("version %d is tried beside it, %s, until %s", e.Version, e.tries, e.Until.Format(time.RFC3339))
	default:
		p.Line("version %d is tried beside it, %s", e.Version, e.tries)
	}
	takes := func(n int64) string { return cli.CountOf(n, "take", "takes") }
	if e.Shadow {
		p.Line("%s judged, %s denied; the next version would deny %s anew, and %s no longer", takes(e.Judged), cli.Number(e.Denied),
			cli.Number(e.Anew), cli.Number(e.NoMore))
	} else {
		p.Line("the next version decided %s, and denied %s; the version in force decided %s, and denied %s", takes(e.ByNext),
			cli.Number(e.ByNextDenied), cli.Number(e.Judged), cli.Number(e.Denied))
	}
	if e.Unjudged > 0 {
		p.Line("%s not judged: what the next version needs was missing, or the store did not decide", takes(e.Unjudged))
	}
	var rows [][]output.Cell
	add := func(what string, style output.Style, top []published.SubjectCount) {
		for _, c := range top {
			rows = append(rows, []output.Cell{{Text: c.Subject}, {Text: c.Limit}, {Text: what, Style: style}, {Text: cli.Number(c.N)}})
		}
	}
	anew := "denied"
	if e.Shadow {
		anew = "anew"
	}
	add(anew, output.AtEnd, e.TopAnew)
	add("no longer", output.Calm, e.TopNoMore)
	if len(rows) > 0 {
		p.Table([]output.Column{{Header: "SUBJECT", Shrinks: 10, Names: true}, {Header: "LIMIT", Shrinks: 10, Names: true},
			{Header: "DENIED"}, {Header: "TAKES", Right: true}}, rows)
	}
}

// statusAnswer is the answer of status.
type statusAnswer struct {
	SchemaVersion int            `json:"schema_version"`
	Version       int64          `json:"version"`
	Hash          string         `json:"hash"`
	At            *time.Time     `json:"at,omitempty"` // when it was published
	By            string         `json:"by,omitempty"`
	Reason        string         `json:"reason,omitempty"`
	Lagging       int            `json:"lagging"`        // how many processes have another version
	Next          *nextEntry     `json:"next,omitempty"` // the version that is tried beside it
	Processes     []processEntry `json:"processes"`
	now           time.Time
}

type processEntry struct {
	Name      string    `json:"name"`
	Host      string    `json:"host"`
	PID       int       `json:"pid,omitempty"`
	Program   string    `json:"program,omitempty"`
	Version   int64     `json:"version"` // 0 for the file of a first start
	Hash      string    `json:"hash,omitempty"`
	Since     time.Time `json:"since"`       // by the clock of the process
	SeenAgoMS int64     `json:"seen_ago_ms"` // since its last report
	Current   bool      `json:"current"`
	Next      int64     `json:"next,omitempty"`    // the version that it tries
	Refused   int64     `json:"refused,omitempty"` // the version that it cannot use
	Error     string    `json:"error,omitempty"`
}

// Lines implements output.Answer.
func (a *statusAnswer) Lines() []any { return output.Lines(a.Processes) }

// Records implements output.Answer.
func (a *statusAnswer) Records() [][]string {
	records := [][]string{{"name", "host", "pid", "version", "since", "seen_ago_ms", "current", "error"}}
	for _, e := range a.Processes {
		records = append(records, []string{e.Name, e.Host, fmt.Sprint(e.PID), cli.Number(e.Version), e.Since.Format(time.RFC3339),
			cli.Number(e.SeenAgoMS), fmt.Sprint(e.Current), e.Error})
	}
	return records
}

// Print implements output.Answer.
func (a *statusAnswer) Print(p *output.Printer) {
	text := fmt.Sprintf("version %d is in force", a.Version)
	if a.At != nil {
		text += fmt.Sprintf(", published %s by %s: %s", cli.Clock(*a.At, a.now), output.Printable(a.By), output.Printable(a.Reason))
	}
	p.Line("%s", text)
	if a.Next != nil {
		a.Next.print(p)
	}
	if len(a.Processes) == 0 {
		p.Line("no process follows this store")
		return
	}
	var rows [][]output.Cell
	for i := range a.Processes {
		e := &a.Processes[i]
		state := output.Cell{Text: "✓", Style: output.Calm}
		if !e.Current {
			state = output.Cell{Text: "lags", Style: output.AtEnd}
		}
		version := cli.Number(e.Version)
		if e.Version == 0 {
			version = "none"
		}
		if e.Next != 0 {
			version += " + " + cli.Number(e.Next)
		}
		rows = append(rows, []output.Cell{{Text: e.Name}, {Text: e.Host}, {Text: cli.Number(int64(e.PID))}, {Text: version}, state,
			{Text: cli.Clock(e.Since, a.now)}, {Text: output.Duration(time.Duration(e.SeenAgoMS)*time.Millisecond) + " ago"}})
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
