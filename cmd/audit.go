package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// auditEntry is a line of the audit: a run that changed or deleted what others had.
type auditEntry struct {
	Time      time.Time `json:"time"`
	User      string    `json:"user"`
	Context   string    `json:"context,omitempty"`
	Store     string    `json:"store"`
	Prefix    string    `json:"prefix"`
	Command   string    `json:"command"`
	Selection string    `json:"selection"`
	Matched   int64     `json:"matched"`
	Changed   int64     `json:"changed"`
	Backup    string    `json:"backup,omitempty"`
	// Outcome is done, partly, interrupted or failed.
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
}

// auditFile is where the lines go.
func auditFile(getenv func(string) string) (string, error) {
	dir := stateDir(getenv)
	if dir == "" {
		return "", errNoState
	}
	return filepath.Join(dir, "audit.jsonl"), nil
}

// errNoState says that there is no place for the audit and for backups.
var errNoState = &usageError{"neither XDG_STATE_HOME nor HOME says where the audit and backups can be kept; set one of them"}

// openAudit opens the audit before anything is changed, so that what happens can be
// written down.
func (g *globalOptions) openAudit() (*os.File, error) {
	path, err := auditFile(g.env.Getenv)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	return file, nil
}

// record writes the entry's line, in one write so that lines of several runs stay
// whole, and closes the file. err is what the run ended with.
func (g *globalOptions) record(ctx context.Context, file *os.File, entry *auditEntry, err error) error {
	entry.Time, entry.User, entry.Prefix = g.env.Now().UTC(), g.user(), g.chosen.prefix.value
	entry.Context, _, _ = g.inUse()
	switch {
	case err == nil:
		entry.Outcome = "done"
	case ctx.Err() != nil:
		entry.Outcome = "interrupted"
	case errors.Is(err, errPartly):
		entry.Outcome = "partly"
	default:
		entry.Outcome = "failed"
	}
	if err != nil {
		entry.Error = message(err)
	}
	text, jsonErr := json.Marshal(entry)
	text = append(text, '\n')
	if !endsLine(file) {
		text = append([]byte{'\n'}, text...)
	}
	_, writeErr := file.Write(text)
	if auditErr := errors.Join(jsonErr, writeErr, file.Close()); auditErr != nil {
		return errors.Join(err, &partlyError{fmt.Errorf("the audit could not be written: %w", auditErr)})
	}
	return err
}

// endsLine reports whether nothing is before the end of the file that a line would
// be lost with: half of one, for which the disk had no room.
func endsLine(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}

// user is who runs the command: behind sudo, who called it.
func (g *globalOptions) user() string {
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		if user := g.env.Getenv(name); user != "" {
			return user
		}
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

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
The lines are kept in limitctl/audit.jsonl in the state directory
($XDG_STATE_HOME, else ~/.local/state).`,
		Example: `  limitctl audit
  limitctl audit --limit-rows 3 -o jsonl`,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runAudit(o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&o.limit, "limit-rows", 0, "show only the last `N`")
	return cmd
}

func runAudit(o *auditOptions) error {
	if o.limit < 0 {
		return usagef("--limit-rows %d is negative; give a number of runs, or 0 for all", o.limit)
	}
	path, err := auditFile(o.env.Getenv)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("the audit cannot be read: %s", err)
	}
	answer := &auditAnswer{entries: []*auditEntry{}}
	if err == nil {
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for number := 1; lines.Scan(); number++ {
			entry := new(auditEntry)
			if err := json.Unmarshal(lines.Bytes(), entry); err != nil { // the disk was full, say
				o.note("warning: %s:%d is no line of an audit and is left out: %s", path, number, err)
				continue
			}
			answer.entries = append(answer.entries, entry)
		}
		if err := lines.Err(); err != nil {
			return usagef("the audit cannot be read: %s", err)
		}
	}
	if o.limit > 0 {
		answer.entries = answer.entries[max(0, len(answer.entries)-o.limit):]
	}
	if len(answer.entries) == 0 && !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: nothing was reset or restored yet\n")
	}
	return o.print(answer)
}

// auditAnswer is what audit says.
type auditAnswer struct{ entries []*auditEntry }

// Document implements output.Answer.
func (a *auditAnswer) Document() any {
	return struct {
		SchemaVersion int           `json:"schema_version"`
		Runs          []*auditEntry `json:"runs"`
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
	records := [][]string{{"time", "user", "context", "store", "prefix", "command", "selection", "matched", "changed", "backup", "outcome", "error"}}
	for _, e := range a.entries {
		records = append(records, []string{e.Time.Format(time.RFC3339), e.User, e.Context, e.Store, e.Prefix, e.Command, e.Selection,
			number(e.Matched), number(e.Changed), e.Backup, e.Outcome, e.Error})
	}
	return records
}

// Print implements output.Answer.
func (a *auditAnswer) Print(p *output.Printer) {
	if len(a.entries) == 0 {
		return
	}
	columns := []output.Column{{Header: "TIME"}, {Header: "USER", Drops: 4}, {Header: "WHERE", Shrinks: 8, Drops: 2}, {Header: "COMMAND", Shrinks: 10},
		{Header: "MATCHED", Right: true, Drops: 3}, {Header: "CHANGED", Right: true, Drops: 1}, {Header: "OUTCOME"}, {Header: "BACKUP", Drops: 5}}
	styles := map[string]output.Style{"done": output.Calm, "partly": output.Near}
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
			{Text: e.Outcome, Style: style}, {Text: filepath.Base(e.Backup)}})
		if e.Backup == "" {
			rows[len(rows)-1][7].Text = "-"
		}
	}
	p.Table(columns, rows)
}
