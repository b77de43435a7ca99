package see

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

// auditAnswer is the answer of audit.
type auditAnswer struct {
	entries  []*auditlog.Entry
	complete bool           // the store's part is in it, or the flags exclude it
	zone     *time.Location // of the times that people read
	backups  string         // the directory of the backups that restore knows by their names
}

// begun returns how many runs have no outcome, and were not undone, and what brings the latest of them back.
func (a *auditAnswer) begun() (n int, undo string) {
	for _, e := range a.entries {
		if e.Outcome == auditlog.Begun && (e.Undone == nil || e.Undone.Outcome != auditlog.Done) {
			n++
			undo = cmp.Or(bringsBack(e), undo)
		}
	}
	return n, undo
}

// bringsBack says which command brings back what a run changed whose end is not known; "" for none.
func bringsBack(e *auditlog.Entry) string {
	if e.Outcome != auditlog.Begun || e.Backup == "" || e.Undone != nil {
		return ""
	}
	return "; " + shell.Command("limitctl", "undo", e.Run) + " brings back what it changed"
}

// Document implements output.Answer.
func (a *auditAnswer) Document() any {
	return struct {
		SchemaVersion int   `json:"schema_version"`
		Complete      bool  `json:"complete"`
		Runs          []any `json:"runs"`
	}{output.SchemaVersion, a.complete, a.Lines()}
}

// Lines implements output.Answer.
func (a *auditAnswer) Lines() []any {
	lines := make([]any, len(a.entries))
	for i, entry := range a.entries {
		lines[i] = entry.Document()
	}
	return lines
}

// Records implements output.Answer.
func (a *auditAnswer) Records() [][]string {
	records := [][]string{{"time", "user", "context", "store", "prefix", "command", "selection",
		"matched", "changed", "backup", "outcome", "error", "reason", "unknown", "account", "host", "run", "began_at", "source", "layout",
		"undone_by"}}
	for _, e := range a.entries {
		began, undoneBy := "", ""
		if e.Undone != nil {
			undoneBy = e.Undone.Run
		}
		if !e.Began.IsZero() {
			began = e.Began.Format(time.RFC3339)
		}
		matched, changed := matchedText(e), ""
		if e.CountsKeys() {
			changed = cli.Number(e.Changed)
		}
		records = append(records, []string{e.Time.Format(time.RFC3339), e.User, e.Context, e.Store, e.Prefix, e.Command, e.Selection,
			matched, changed, e.Backup, string(e.Outcome), e.Error, e.Reason, cli.Number(e.Unknown), e.Account, e.Host,
			e.Run, began, string(e.Source), e.Layout, undoneBy})
	}
	return records
}

// Print implements output.Answer. If the terminal is too narrow for all columns, commands, backups and reasons get
// lines of their own, since readers need them whole.
func (a *auditAnswer) Print(p *output.Printer) {
	if len(a.entries) == 0 {
		return
	}
	if columns, rows := a.table(true); !p.TooNarrow(columns, rows) {
		p.Table(columns, rows)
		return
	}
	for i, line := range p.TableLines(a.table(false)) {
		fmt.Fprintln(p.Out, line)
		if i > 0 {
			a.printRest(p, a.entries[i-1])
		}
	}
}

// table returns the table, whole or without what gets lines of its own.
func (a *auditAnswer) table(whole bool) (columns []output.Column, rows [][]output.Cell) {
	columns = []output.Column{{Header: "TIME"}, {Header: "USER", Shrinks: 8, Drops: 2},
		{Header: "WHERE", Shrinks: 8, Drops: 3},
		{Header: "CHANGED", Right: true, Drops: 1}, {Header: "OUTCOME"}}
	if whole {
		columns = append(columns, output.Column{Header: "BACKUP"}, output.Column{Header: "REASON"})
		columns = slices.Insert(columns, 3, output.Column{Header: "COMMAND"}, output.Column{Header: "MATCHED", Right: true})
	}
	styles := map[auditlog.Outcome]output.Style{auditlog.Done: output.Calm, auditlog.Partly: output.Near}
	for _, e := range a.entries {
		style, known := styles[e.Outcome]
		if !known {
			style = output.AtEnd
		}
		outcome := string(e.Outcome)
		if e.Undone != nil {
			outcome += ", " + e.Undone.Text()
			if e.Undone.Outcome == auditlog.Done {
				style = output.Calm
			}
			if whole {
				outcome += " " + a.undoneBy(e.Undone)
			}
		}
		row := []output.Cell{{Text: e.Time.In(a.zone).Format("2006-01-02 15:04:05")}, {Text: who(e)}, {Text: where(e, whole)},
			{Text: e.ChangedText()}, {Text: outcome, Style: style}}
		if whole {
			row = append(row, output.Cell{Text: cmp.Or(a.backup(e), "-")}, output.Cell{Text: cmp.Or(e.Reason, "-")})
			row = slices.Insert(row, 3, output.Cell{Text: e.CommandText()}, output.Cell{Text: matchedText(e)})
		}
		rows = append(rows, row)
	}
	return columns, rows
}

// undoneBy says when a run was undone and by whom, as the row of the run that did it says it.
func (a *auditAnswer) undoneBy(u *auditlog.Undone) string {
	return u.Time.In(a.zone).Format("2006-01-02 15:04:05") + " by " + u.User
}

// who is the user of a run, on which machine.
func who(e *auditlog.Entry) string {
	text := e.User
	if e.Account != "" {
		text += " as " + e.Account
	}
	if e.Host != "" {
		text += "@" + e.Host
	}
	return text
}

// where is the context of a run, or the name of its store; without whole, only the base name of a file.
func where(e *auditlog.Entry, whole bool) string {
	switch {
	case e.Context != "":
		return e.Context
	case !whole && filepath.IsAbs(e.Store):
		return filepath.Base(e.Store)
	}
	return e.Store
}

// matchedText is how many keys a run has matched, empty if it does not count keys.
func matchedText(e *auditlog.Entry) string {
	if !e.CountsKeys() {
		return ""
	}
	return cli.Number(e.Matched)
}

// backup is the argument for restore, quoted for a shell.
func (a *auditAnswer) backup(e *auditlog.Entry) string {
	switch {
	case e.Backup == "":
		return ""
	case a.backups != "" && filepath.Dir(e.Backup) == a.backups:
		return shell.Command(filepath.Base(e.Backup))
	}
	return shell.Command(e.Backup)
}

// printRest prints under a row what has no column in a narrow table. The name of the backup
// stays whole.
func (a *auditAnswer) printRest(p *output.Printer, e *auditlog.Entry) {
	const indent = "    "
	for _, line := range output.Wrap(output.Printable(e.CommandText()), p.Width-len(indent)) {
		p.Line("%s%s", indent, output.Cut(line, p.Width-len(indent)))
	}
	if backup := a.backup(e); backup != "" {
		p.Line("%sbackup %s", indent, output.Printable(backup))
	}
	if e.Unknown > 0 {
		p.Line("%s%s", indent, output.Cut(fmt.Sprintf("at least %d changed; of up to %d more it is not known", e.Changed, e.Unknown),
			p.Width-len(indent)))
	}
	if e.Undone != nil {
		p.Line("%s%s", indent, output.Cut(output.Printable(e.Undone.Text()+" "+a.undoneBy(e.Undone)), p.Width-len(indent)))
	}
	if e.Reason != "" {
		p.Line("%s%s", indent, output.Cut("reason "+output.Printable(e.Reason), p.Width-len(indent)))
	}
}
