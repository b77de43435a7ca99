package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/lines"
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
func (g *globalOptions) openAudit() (files.File, error) {
	path, err := auditFile(g.env.Getenv)
	if err != nil {
		return nil, err
	}
	if err := g.env.MakeDir(filepath.Dir(path)); err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	file, err := g.env.Append(path)
	if err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	return file, nil
}

// record writes the entry's line, in one write so that lines of several runs stay
// whole, and closes the file. err is what the run ended with.
func (g *globalOptions) record(ctx context.Context, file files.File, entry *auditEntry, err error) error {
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
		entry.Error = g.withoutSecrets(message(err))
	}
	entry.bound()
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

const (
	// mostText is how many bytes of a text go into a line of the audit, and into the
	// head of a backup.
	mostText = 2000
	// mostAuditLine is more than any line has that is made of such texts.
	mostAuditLine = 1 << 20
)

// bound cuts what somebody else may have made long: a server its error, a caller what
// is selected.
func (e *auditEntry) bound() {
	for _, text := range []*string{&e.User, &e.Context, &e.Store, &e.Prefix, &e.Command, &e.Selection, &e.Backup, &e.Outcome, &e.Error} {
		*text = bounded(*text)
	}
}

// bounded cuts a text that is too long, between characters.
func bounded(text string) string {
	if len(text) <= mostText {
		return text
	}
	end := mostText
	for end > mostText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// endsLine reports whether nothing is before the end of the file that a line would
// be lost with: half of one, for which the disk had no room.
func endsLine(file files.File) bool {
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
	return fmt.Sprintf("uid %d", g.env.UserID)
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
	answer := &auditAnswer{entries: []*auditEntry{}}
	switch file, err := o.env.Open(path); {
	case err == nil:
		defer file.Close()
		if err := o.skipOld(path, file); err != nil {
			return usagef("the audit cannot be read: %s", err)
		}
		if err := o.readAudit(ctx, path, file, answer); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return usagef("the audit cannot be read: %s", err)
	}
	if len(answer.entries) == 0 && !o.quiet {
		fmt.Fprintf(o.env.Err, "limitctl: nothing was reset or restored yet\n")
	}
	return o.print(answer)
}

const (
	// mostRuns is how many runs are shown unless --limit-rows says how many, so that an
	// audit of any size is read in bounded memory.
	mostRuns = 10_000
	// toldLines is how many lines that are none of an audit are told one by one.
	toldLines = 5
)

// mostAudit is how much of an audit is looked at: some hundred thousands of runs.
const mostAudit = 256 << 20

// skipOld goes to where the end of an audit begins that is far too large, for a file
// system that failed, say. The line that it goes into is none, and is left out.
func (o *auditOptions) skipOld(path string, file files.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() <= mostAudit {
		return err
	}
	fmt.Fprintf(o.env.Err, "limitctl: warning: %s has %d MB, of which only the last %d are looked at, and their lines counted\n",
		path, info.Size()>>20, mostAudit>>20)
	_, err = file.Seek(-mostAudit, io.SeekEnd)
	return err
}

// readAudit reads the latest runs. A line that is none, or far too long, is left out.
func (o *auditOptions) readAudit(ctx context.Context, path string, file io.Reader, answer *auditAnswer) error {
	most := cmp.Or(o.limit, mostRuns)
	reader, runs, bad := lines.NewReader(file, mostAuditLine), 0, 0
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return usagef("the audit cannot be read: %s", err)
		}
		entry := new(auditEntry)
		if reason := entry.read(&line); reason != nil { // the disk was full, say
			if bad++; bad <= toldLines {
				fmt.Fprintf(o.env.Err, "limitctl: warning: %s:%d is no line of an audit and is left out: %s\n", path, line.Number, message(reason))
			}
			continue
		}
		if runs++; len(answer.entries) == 2*most { // the latest are kept
			answer.entries = append(answer.entries[:0], answer.entries[most:]...)
			clear(answer.entries[most : 2*most])
		}
		answer.entries = append(answer.entries, entry)
	}
	answer.entries = answer.entries[max(0, len(answer.entries)-most):]
	if bad > toldLines {
		fmt.Fprintf(o.env.Err, "limitctl: warning: %d lines in all are none of an audit and are left out\n", bad)
	}
	if runs > most && o.limit == 0 {
		fmt.Fprintf(o.env.Err, "limitctl: warning: only the last %d of %d runs are shown; --limit-rows N shows the last N\n", most, runs)
	}
	return nil
}

// read reads the entry from a line, or says why it is none.
func (e *auditEntry) read(line *lines.Line) error {
	if line.TooLong {
		return fmt.Errorf("it has %d bytes, and at most %d are read", line.Length, mostAuditLine)
	}
	if err := json.Unmarshal(line.Text, e); err != nil {
		return err
	}
	if e.Time.IsZero() {
		return errors.New("it says no time")
	}
	e.bound() // an earlier limitctl did not
	return nil
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
			{Text: e.Outcome, Style: style}, {Text: shell.Command(filepath.Base(e.Backup))}})
		if e.Backup == "" {
			rows[len(rows)-1][7].Text = "-"
		}
	}
	p.Table(columns, rows)
}
