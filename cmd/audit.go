package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/cmd/internal/trail"
)

type auditOptions struct {
	*globalOptions
	limit int
}

func newAuditCmd(global *globalOptions) *cobra.Command {
	o := &auditOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who reset or restored what, and when",
		Long: `Audit shows the runs of reset and restore by this user of this machine, the
latest last: who, when, where, what was selected and how many keys it changed.
Without --limit-rows these are the last 10,000. Lines that are damaged are left
out, with a warning.
The lines are kept in limitctl/audit.jsonl in the state directory
($XDG_STATE_HOME, else ~/.local/state).`,
		Example: `  limitctl audit
  limitctl audit --limit-rows 3 -o jsonl`,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runAudit(cmd.Context(), o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&o.limit, "limit-rows", 0, "show only the last `N`")
	return cmd
}

func runAudit(ctx context.Context, o *auditOptions) error {
	if o.limit < 0 {
		return usagef("--limit-rows %d is negative; give a number of runs, or 0 for all", o.limit)
	}
	path, err := auditFile(o.env.Getenv)
	if err != nil {
		return err
	}
	history, err := o.readAudit(ctx, path)
	if err != nil {
		return usagef("the audit cannot be read: %s", err)
	}
	for _, bad := range history.FirstBad {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %s:%d is not an entry of the audit and is left out: %s\n",
			path, bad.Number, message(bad.Reason))
	}
	if history.Bad > len(history.FirstBad) {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %d lines in all are not entries of the audit and are left out\n", history.Bad)
	}
	if shown := len(history.Runs); history.Total > shown && o.limit == 0 {
		fmt.Fprintf(o.env.Err, "limitctl: warning: only the last %d of %d runs are shown; --limit-rows N shows the last N\n",
			shown, history.Total)
	}
	if len(history.Runs) == 0 && !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: nothing was reset or restored yet\n")
	}
	return o.print(&auditAnswer{history.Runs})
}

// readAudit reads the audit trail; one that is not there yet is empty.
func (o *auditOptions) readAudit(ctx context.Context, path string) (*trail.History, error) {
	file, err := o.env.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &trail.History{Runs: []*trail.Entry{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, skipped, err := trail.SkipOld(file)
	if err != nil {
		return nil, err
	}
	if skipped {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %s has %d MB; only the last %d are read, and lines are counted from there\n",
			path, size>>20, trail.MaxSize>>20)
	}
	return trail.Read(ctx, file, trail.Query{Most: o.limit})
}

// auditAnswer is what audit says.
type auditAnswer struct{ entries []*trail.Entry }

// Document implements output.Answer.
func (a *auditAnswer) Document() any {
	return struct {
		SchemaVersion int            `json:"schema_version"`
		Runs          []*trail.Entry `json:"runs"`
	}{output.SchemaVersion, a.entries}
}

// Lines implements output.Answer.
func (a *auditAnswer) Lines() []any {
	lines := make([]any, len(a.entries))
	for i, entry := range a.entries {
		lines[i] = entry
	}
	return lines
}

// Records implements output.Answer.
func (a *auditAnswer) Records() [][]string {
	records := [][]string{{"time", "user", "context", "store", "prefix", "command", "selection",
		"matched", "changed", "backup", "outcome", "error"}}
	for _, e := range a.entries {
		records = append(records, []string{e.Time.Format(time.RFC3339), e.User, e.Context, e.Store, e.Prefix, e.Command, e.Selection,
			number(e.Matched), number(e.Changed), e.Backup, string(e.Outcome), e.Error})
	}
	return records
}

// Print implements output.Answer.
func (a *auditAnswer) Print(p *output.Printer) {
	if len(a.entries) == 0 {
		return
	}
	columns := []output.Column{{Header: "TIME"}, {Header: "USER", Drops: 4},
		{Header: "WHERE", Shrinks: 8, Drops: 2}, {Header: "COMMAND", Shrinks: 10},
		{Header: "MATCHED", Right: true, Drops: 3}, {Header: "CHANGED", Right: true, Drops: 1},
		{Header: "OUTCOME"}, {Header: "BACKUP", Drops: 5}}
	styles := map[trail.Outcome]output.Style{trail.Done: output.Calm, trail.Partly: output.Near}
	var rows [][]output.Cell
	for _, e := range a.entries {
		style, known := styles[e.Outcome]
		if !known {
			style = output.AtEnd
		}
		where := e.Store
		if e.Context != "" {
			where = e.Context
		}
		rows = append(rows, []output.Cell{{Text: e.Time.Format("2006-01-02 15:04:05")}, {Text: e.User}, {Text: where},
			{Text: strings.TrimSpace(e.Command + " " + e.Selection)}, {Text: number(e.Matched)}, {Text: number(e.Changed)},
			{Text: string(e.Outcome), Style: style}, {Text: shell.Command(filepath.Base(e.Backup))}})
		if e.Backup == "" {
			rows[len(rows)-1][7].Text = "-"
		}
	}
	p.Table(columns, rows)
}
