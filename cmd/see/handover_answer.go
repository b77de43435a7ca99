package see

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The parts of a handover, in the order in which they are shown.
const (
	partConfig = iota
	partOverrides
	partChanges
	partDenials
	handoverParts
)

// handoverAnswer is what the next shift has to know.
type handoverAnswer struct {
	now   time.Time
	place string
	rows  int // of the terminal; 0 for no bound

	version    *published.Version // nil if nothing is published
	processes  []published.Process
	inForce    []*store.Override
	changes    []*auditlog.Entry // the latest first
	notCounted string            // why nobody counts denials
	denials    denialsAnswer
	began      *began.Began         // nil if nothing began
	failed     [handoverParts]error // why a part could not be read
}

// Print implements output.Answer. On a terminal it takes one screen: each part gets as many rows as fit, the same
// number.
func (a *handoverAnswer) Print(p *output.Printer) {
	s := &screen{Printer: *p, most: math.MaxInt}
	if a.rows > 0 {
		s.most = a.rows
	}
	for ; ; s.most-- {
		var text bytes.Buffer
		s.Out, s.lines = &text, 1 // that of the shell
		if a.err() != nil {
			s.lines++
		}
		a.print(s)
		if a.rows == 0 || s.most == 0 || s.lines <= a.rows {
			_, _ = p.Out.Write(text.Bytes())
			return
		}
	}
}

// screen is where a handover is drawn.
type screen struct {
	output.Printer
	most  int // rows of a part
	lines int // that were drawn
}

// line draws one line of the terminal.
func (s *screen) line(style output.Style, text string) {
	if text = output.Escape(text); s.Width > 0 {
		text = output.Cut(text, s.Width)
	}
	s.lines++
	s.Line("%s", s.Paint(style, text))
}

// table draws rows without a header, as many as there is room for. below draws what belongs below a row, if it is not
// nil; left is how many more things there are, and command shows all of them.
func (s *screen) table(columns []output.Column, rows [][]output.Cell, below func(row int), left int, command string) {
	shown := min(s.most, len(rows))
	if shown > 0 {
		within := s.Printer
		within.Width = max(0, s.Width-2)
		lines := within.TableLines(columns, rows[:shown])
		for i, text := range lines[len(lines)-shown:] {
			s.lines++
			if s.Line("  %s", text); below != nil {
				below(i)
			}
		}
	}
	if left += len(rows) - shown; left > 0 {
		s.line(output.Plain, fmt.Sprintf("  … and %d more: %s", left, command))
	}
}

// headline draws the headline of a part, of which so much was read, and why not all of it could be.
func (a *handoverAnswer) headline(s *screen, which int, name string, read int, count string) {
	err := a.failed[which]
	text := name + "  " + count
	switch {
	case err != nil && read == 0: // then there may be any number
		text = name + "  cannot be read"
	case err != nil:
		text += "; not all can be read"
	}
	if s.line(output.Bold, text); err != nil {
		s.line(output.AtEnd, "  "+cli.Message(err))
	}
}

// cells are the cells of a row of texts.
func cells(texts ...string) []output.Cell {
	row := make([]output.Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	return row
}

// whole is a column that is never cut, long one that may be, and less one that may be missing, too.
var whole, long, less = output.Column{}, output.Column{Shrinks: 8}, output.Column{Shrinks: 8, Drops: 1}

func (a *handoverAnswer) print(s *screen) {
	s.line(output.Faint, "handover of "+a.now.Format("2006-01-02 15:04 MST")+" in "+a.place)
	a.printConfig(s)
	a.printOverrides(s)
	a.printChanges(s)
	a.printBegan(s)
	a.printDenials(s)
}

// printConfig draws nothing if nothing is published.
func (a *handoverAnswer) printConfig(s *screen) {
	v := a.version
	switch {
	case v == nil && a.failed[partConfig] == nil:
		return
	case v == nil:
		a.headline(s, partConfig, "CONFIG", 0, "")
		return
	}
	a.headline(s, partConfig, "CONFIG", 1, fmt.Sprintf("version %d, published %s by %s: %s", v.Number,
		cli.Clock(v.At, a.now), output.Printable(v.By), output.Printable(v.Reason)))
	var rows [][]output.Cell
	for i := range a.processes {
		p := &a.processes[i]
		row := cells(p.Name+" on "+p.Host, "version "+p.VersionText(), p.Error)
		switch {
		case p.Compares:
			row[1].Text = "by a file"
		case !p.Has(v.Number, v.Hash):
			row[1] = output.Cell{Text: row[1].Text + "  lags", Style: output.Near}
		}
		rows = append(rows, row)
	}
	s.table([]output.Column{long, whole, less}, rows, nil, 0, "limitctl config status")
}

func (a *handoverAnswer) printOverrides(s *screen) {
	blocks := 0
	var rows [][]output.Cell
	for _, o := range a.inForce {
		if o.Effect == store.OverrideBlock {
			blocks++
		}
		rows = append(rows, cells(o.ID, allowance.Effect(o), allowance.WhomText(o),
			output.Duration(o.Left.Truncate(time.Second))+" left", "by "+o.By+because(o.Reason)))
	}
	count := cli.CountOf(int64(len(rows)), "override", "overrides")
	if blocks > 0 {
		count += ", " + cli.CountOf(int64(blocks), "block", "blocks")
	}
	a.headline(s, partOverrides, "IN FORCE", len(rows), count)
	s.table([]output.Column{whole, whole, long, whole, less}, rows, nil, 0, "limitctl override list")
}

func (a *handoverAnswer) printChanges(s *screen) {
	var rows [][]output.Cell
	for _, e := range a.changes {
		text := a.what(e)
		switch {
		case e.CountsKeys() && e.Outcome == auditlog.Begun: // it is not known how many it changed
			text += ", begun on " + cli.CountOf(e.Matched, "key", "keys")
		case e.CountsKeys():
			text += ", " + cli.CountOf(e.Changed, "key", "keys")
		}
		if e.Outcome != auditlog.Done && e.Outcome != auditlog.Begun {
			text += ", " + string(e.Outcome)
		}
		text += bringsBack(e)
		if e.Undone != nil {
			text += ", " + e.Undone.Text() + " " + cli.Clock(e.Undone.Time, a.now) + " by " + e.Undone.User
		}
		rows = append(rows, cells(cli.Clock(e.Time, a.now), who(e), text+because(e.Reason)))
	}
	since := store.FormatPeriod(handoverChanges)
	a.headline(s, partChanges, "CHANGED in the last "+since, len(rows), cli.CountOf(int64(len(rows)), "run", "runs")+
		map[bool]string{true: ", the latest first"}[len(rows) > 1])
	s.table([]output.Column{whole, long, long}, rows, nil, 0, shell.Command("limitctl", "audit", "--since", since))
}

// what is what was run: of an undo the run that it undid, or the name of the file.
func (a *handoverAnswer) what(e *auditlog.Entry) string {
	if !e.BringsBack() {
		return e.CommandText()
	}
	for _, undone := range a.changes {
		if undone.Undone != nil && undone.Undone.Run == e.Run {
			return e.Command + " of " + undone.CommandText()
		}
	}
	return e.Command + " " + filepath.Base(e.Selection)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// printBegan draws nothing if no denials began lately.
func (a *handoverAnswer) printBegan(s *screen) {
	b := a.began
	if b == nil {
		return
	}
	s.line(output.Bold, "BEGAN in the last "+store.FormatPeriod(began.Window)+"  "+a.denials.count(b.Denied)+" denials")
	limits := b.Limits[:min(mostBegan, len(b.Limits))]
	var rows [][]output.Cell
	for _, l := range limits {
		rows = append(rows, cells(cli.Clock(l.Since, a.now), l.Name,
			a.denials.count(l.Denied)+" denied, "+cli.CountOf(int64(l.Keys), "key", "keys")))
	}
	written := ""
	s.table([]output.Column{whole, long, whole}, rows, func(row int) {
		l := limits[row]
		for _, e := range l.Changes[:min(mostBegan, len(l.Changes))] {
			s.line(output.Plain, "    after "+a.what(e)+" "+cli.Clock(e.Time, a.now)+" by "+who(e)+because(e.Reason))
		}
		if l.Line != "" && l.Line != written { // it is pasted, so it stays whole
			written = l.Line
			s.Line("    %s", l.Line)
			if s.lines++; s.Width > 0 {
				s.lines += (output.Width(l.Line) + 3) / s.Width
			}
		}
	}, len(b.Limits)-len(limits), "limitctl denials --by limit --sort since")
}

// mostBegan is how many limits that began to deny, and how many changes before each, are shown.
const mostBegan = 3

// denied are the keys that limits denied most, and those that shadow limits would have.
func (a *handoverAnswer) denied() (all []*denialRow) {
	limits, shadows := 0, 0
	for i := range a.denials.rows {
		switch row := &a.denials.rows[i]; {
		case row.shadow && shadows < topDenied:
			shadows++
			all = append(all, row)
		case !row.shadow && row.Count > 0 && limits < topDenied:
			limits++
			all = append(all, row)
		}
	}
	return all
}

func (a *handoverAnswer) printDenials(s *screen) {
	d := &a.denials
	text := cmp.Or(a.notCounted, "no denial was counted")
	if d.total > 0 {
		text = d.count(d.total+d.others) + " denials of " + cli.CountOf(int64(d.keys), "key", "keys")
	}
	if d.blocked > 0 {
		text += "; " + d.count(d.blocked) + " blocked"
	}
	a.headline(s, partDenials, "DENIED in the last "+store.FormatPeriod(began.Window), d.keys, text)
	var rows [][]output.Cell
	for _, row := range a.denied() {
		style, text := output.AtEnd, "since "+ago(row.Since, d.now)+", last "+ago(row.LastAt, d.now)
		switch {
		case row.shadow:
			style, text = output.Faint, "would be denied by a shadow limit"
		case row.LastAt.Until(d.now) > admin.DenialPause:
			text = "over since " + ago(row.LastAt, d.now)
		}
		rows = append(rows, cells(d.count(row.Count), row.key.Subject, row.key.Name, text))
		rows[len(rows)-1][0].Style = style
	}
	s.table([]output.Column{{Right: true}, long, long, {Drops: 1}}, rows, nil, max(0, d.keys-topDenied),
		"limitctl denials")
}

type unreadDocument struct {
	Part  string `json:"part"` // config, overrides, changes or denials
	Error string `json:"error"`
}

// partNames are the names of the parts in JSON and CSV.
var partNames = [handoverParts]string{"config", "overrides", "changes", "denials"}

// Document implements output.Answer.
func (a *handoverAnswer) Document() any {
	d := struct {
		SchemaVersion int                  `json:"schema_version"`
		At            time.Time            `json:"at"`
		Place         string               `json:"place"`     // the context, or the store
		Processes     []published.Process  `json:"processes"` // that follow what is published
		Overrides     []allowance.Document `json:"overrides"`
		Changes       []*auditlog.Entry    `json:"changes"` // of the last 12 hours, the latest first
		Began         *began.Began         `json:"began"`   // null if no denials began in the last 10 minutes
		Denials       denialSums           `json:"denials"`
		Unread        []unreadDocument     `json:"unread"` // the parts that could not be read whole
	}{output.SchemaVersion, output.UTC(a.now), a.place, append([]published.Process{}, a.processes...),
		[]allowance.Document{},
		append([]*auditlog.Entry{}, a.changes...), a.began, a.denials.sums([]any{}), []unreadDocument{}}
	for _, o := range a.inForce {
		d.Overrides = append(d.Overrides, allowance.NewDocument(o))
	}
	for _, row := range a.denied() {
		d.Denials.Denials = append(d.Denials.Denials, row.document())
	}
	for i, err := range a.failed {
		if err != nil {
			d.Unread = append(d.Unread, unreadDocument{partNames[i], cli.Message(err)})
		}
	}
	return d
}

// Records implements output.Answer.
func (a *handoverAnswer) Records() [][]string {
	records := [][]string{{"part", "at", "by", "what", "subject", "name", "denied", "reason"}}
	add := func(part int, at time.Time, texts ...string) {
		records = append(records, append([]string{partNames[part], at.UTC().Format(time.RFC3339)}, texts...))
	}
	for _, o := range a.inForce {
		add(partOverrides, o.ExpiresAt, o.By, allowance.Effect(o), allowance.Whom(o), allowance.Pattern(o.Names), "",
			o.Reason)
	}
	for _, e := range a.changes {
		add(partChanges, e.Time, e.User, e.CommandText(), "", "", "", e.Reason)
	}
	for _, row := range a.denied() {
		what := map[bool]string{true: "shadow"}[row.shadow]
		add(partDenials, row.LastAt.Time(), "", what, row.key.Subject, row.key.Name, cli.Number(row.Count), "")
	}
	return records
}
