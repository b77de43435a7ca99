package see

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
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
		SchemaVersion int               `json:"schema_version"`
		Complete      bool              `json:"complete"`
		Runs          []*auditlog.Entry `json:"runs"`
	}{output.SchemaVersion, a.complete, a.entries}
}

// Items implements output.Answer.
func (a *auditAnswer) Items() any { return a.entries }

// Print implements output.Answer. What was run has a line of its own, since readers need it whole.
func (a *auditAnswer) Print(p *output.Printer) {
	if len(a.entries) == 0 {
		return
	}
	columns := []output.Column{{Header: "TIME"}, {Header: "USER", Shrinks: 8, Drops: 2},
		{Header: "WHERE", Shrinks: 8, Drops: 3}, {Header: "CHANGED", Right: true, Drops: 1}, {Header: "OUTCOME"}}
	var rows [][]output.Cell
	for _, e := range a.entries {
		style, outcome := output.AtEnd, string(e.Outcome)
		switch {
		case e.Outcome == auditlog.Done || e.Undone != nil && e.Undone.Outcome == auditlog.Done:
			style = output.Calm
		case e.Outcome == auditlog.Partly:
			style = output.Near
		}
		if e.Undone != nil {
			outcome += ", " + e.Undone.Text()
		}
		rows = append(rows, []output.Cell{{Text: a.clock(e.Time)}, {Text: who(e)}, {Text: cmp.Or(e.Context, e.Store)},
			{Text: e.ChangedText()}, {Text: outcome, Style: style}})
	}
	below := func(text string) {
		for _, line := range output.Wrap(output.Printable(text), p.Width-len(indent)) {
			if p.Width > 0 {
				line = output.Cut(line, p.Width-len(indent))
			}
			p.Line("%s%s", indent, line)
		}
	}
	for i, line := range p.TableLines(columns, rows) {
		if fmt.Fprintln(p.Out, line); i == 0 {
			continue
		}
		e := a.entries[i-1]
		below(e.CommandText() + because(e.Reason))
		if backup := a.backup(e); backup != "" { // which stays whole
			p.Line("%sbackup %s", indent, output.Printable(backup))
		}
		if e.Undone != nil {
			below(e.Undone.Text() + " " + a.clock(e.Undone.Time) + " by " + e.Undone.User)
		}
	}
}

const indent = "    "

// clock writes an instant for people.
func (a *auditAnswer) clock(at time.Time) string { return at.In(a.zone).Format(time.DateTime) }

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
