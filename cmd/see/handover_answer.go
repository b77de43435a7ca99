package see

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
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

// part is one part for people: its headline, a row for each thing, and the command that shows all of them.
type part struct {
	headline string
	failure  string // why not all of it can be read
	columns  []output.Column
	rows     [][]output.Cell
	below    [][]string // the lines below each row; nil for none
	command  string
	shown    int
	left     int // how many are not among rows
}

// height is how many lines a row takes, with those below it, which a terminal may break.
func (p *part) height(row, width int) int {
	lines := 1
	if p.below != nil {
		for _, text := range p.below[row] {
			if lines++; width > 0 {
				lines += (output.Width(text) - 1) / width
			}
		}
	}
	return lines
}

// more is how many things are not shown.
func (p *part) more() int { return len(p.rows) - p.shown + p.left }

// Print implements output.Answer.
func (a *handoverAnswer) Print(p *output.Printer) {
	parts := []*part{a.configPart(), a.overridesPart(), a.changesPart(), a.beganPart(p.Width), a.denialsPart()}
	a.fill(parts, p.Width)
	line := func(style output.Style, text string) { p.Line("%s", p.Paint(style, fitted(text, p.Width))) }
	line(output.Faint, "handover of "+a.now.Format("2006-01-02 15:04 MST")+" in "+a.place)
	for _, part := range parts {
		if part.headline == "" {
			continue
		}
		line(output.Bold, part.headline)
		if part.failure != "" {
			line(output.AtEnd, "  "+part.failure)
		}
		if part.shown > 0 {
			within := *p
			within.Width = max(0, p.Width-2)
			lines := within.TableLines(part.columns, part.rows[:part.shown])
			for i, text := range lines[len(lines)-part.shown:] { // without the headers
				p.Line("  %s", text)
				if part.below != nil {
					for _, text := range part.below[i] {
						p.Line("%s", text)
					}
				}
			}
		}
		if part.more() > 0 {
			line(output.Plain, fmt.Sprintf("  … and %d more: %s", part.more(), part.command))
		}
	}
}

// fitted is a text as one line of a terminal.
func fitted(text string, width int) string {
	if text = output.Escape(text); width > 0 {
		text = output.Cut(text, width)
	}
	return text
}

// fill gives the parts rows in turn, as far as they fit, so that a long part leaves room for the others.
func (a *handoverAnswer) fill(parts []*part, width int) {
	used := 2 // the title, and the line of the shell
	for _, part := range parts {
		if part.headline != "" {
			used += 2 // that, and what is not shown
		}
		if part.failure != "" {
			used++
		}
		if a.rows == 0 {
			part.shown = len(part.rows)
		}
	}
	if a.err() != nil {
		used++
	}
	for progress := true; progress && a.rows > 0; {
		progress = false
		for _, part := range parts {
			if part.shown == len(part.rows) {
				continue
			}
			if lines := part.height(part.shown, width); used+lines <= a.rows {
				part.shown++
				used += lines
				progress = true
			}
		}
	}
}

// newPart returns a part with so many things read, which count says in words, and why not all of them could be read.
func (a *handoverAnswer) newPart(which int, name string, read int, count, command string,
	columns ...output.Column) *part {
	made := &part{headline: name + "  " + count, command: command, columns: columns}
	if err := a.failed[which]; err != nil {
		made.headline += "; not all can be read"
		if read == 0 { // then there may be any number
			made.headline = name + "  cannot be read"
		}
		made.failure = cli.Message(err)
	}
	return made
}

// add adds a row of texts.
func (p *part) add(texts ...string) {
	row := make([]output.Cell, len(texts))
	for i, text := range texts {
		row[i].Text = text
	}
	p.rows = append(p.rows, row)
}

// whole is a column that is never cut, long one that may be, and less one that may be missing, too.
var whole, long, less = output.Column{}, output.Column{Shrinks: 8}, output.Column{Shrinks: 8, Drops: 1}

// configPart has no headline if nothing is published.
func (a *handoverAnswer) configPart() *part {
	v := a.version
	switch {
	case v == nil && a.failed[partConfig] == nil:
		return new(part)
	case v == nil:
		return a.newPart(partConfig, "CONFIG", 0, "", "limitctl config status")
	}
	made := a.newPart(partConfig, "CONFIG", 1, fmt.Sprintf("version %d, published %s by %s: %s", v.Number, cli.Clock(v.At, a.now),
		output.Printable(v.By), output.Printable(v.Reason)), "limitctl config status", long, whole, less)
	for i := range a.processes {
		p := &a.processes[i]
		has, style := "version "+p.VersionText(), output.Plain
		switch current := p.Has(v.Number, v.Hash); {
		case p.Compares:
			has = "by a file"
		case !current:
			has, style = has+"  lags", output.Near
		}
		made.add(p.Name+" on "+p.Host, has, p.Error)
		made.rows[i][1].Style = style
	}
	return made
}

func (a *handoverAnswer) overridesPart() *part {
	blocks := 0
	for _, o := range a.inForce {
		if o.Effect == store.OverrideBlock {
			blocks++
		}
	}
	count := cli.CountOf(int64(len(a.inForce)), "override", "overrides")
	if blocks > 0 {
		count += ", " + cli.CountOf(int64(blocks), "block", "blocks")
	}
	made := a.newPart(partOverrides, "IN FORCE", len(a.inForce), count, "limitctl override list",
		whole, whole, long, whole, less)
	for _, o := range a.inForce {
		made.add(o.ID, allowance.Effect(o), allowance.WhomText(o),
			output.Duration(o.Left.Truncate(time.Second))+" left", "by "+o.By+because(o.Reason))
	}
	return made
}

func (a *handoverAnswer) changesPart() *part {
	count := cli.CountOf(int64(len(a.changes)), "run", "runs") + map[bool]string{true: ", the latest first"}[len(a.changes) > 1]
	made := a.newPart(partChanges, "CHANGED in the last "+store.FormatPeriod(handoverChanges), len(a.changes), count,
		shell.Command("limitctl", "audit", "--since", store.FormatPeriod(handoverChanges)), whole, long, long)
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
		made.add(cli.Clock(e.Time, a.now), who(e), text+because(e.Reason))
	}
	return made
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

// beganPart has no headline if no denials began lately.
func (a *handoverAnswer) beganPart(width int) *part {
	b := a.began
	if b == nil {
		return new(part)
	}
	made := &part{command: "limitctl denials --by limit --sort since", columns: []output.Column{whole, long, whole},
		headline: "BEGAN in the last " + store.FormatPeriod(began.Window) + "  " + a.denials.count(b.Denied) + " denials",
		left:     max(0, len(b.Limits)-mostBegan)}
	var commands []string
	for _, l := range b.Limits[:min(mostBegan, len(b.Limits))] {
		made.add(cli.Clock(l.Since, a.now), l.Name, a.denials.count(l.Denied)+" denied, "+cli.CountOf(int64(l.Keys), "key", "keys"))
		var below []string
		for _, e := range l.Changes[:min(mostBegan, len(l.Changes))] {
			below = append(below, fitted("    after "+a.what(e)+" "+cli.Clock(e.Time, a.now)+" by "+who(e)+because(e.Reason), width))
		}
		if l.Line != "" && !slices.Contains(commands, l.Line) { // it stays whole, and is written once for several limits
			commands, below = append(commands, l.Line), append(below, "    "+l.Line)
		}
		made.below = append(made.below, below)
	}
	return made
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

func (a *handoverAnswer) denialsPart() *part {
	d := &a.denials
	text := cmp.Or(a.notCounted, "no denial was counted")
	if d.total > 0 {
		text = d.count(d.total+d.others) + " denials of " + cli.CountOf(int64(d.keys), "key", "keys")
	}
	if d.blocked > 0 {
		text += "; " + d.count(d.blocked) + " blocked"
	}
	made := a.newPart(partDenials, "DENIED in the last "+store.FormatPeriod(began.Window), d.keys, text,
		"limitctl denials", output.Column{Right: true}, long, long, output.Column{Drops: 1})
	made.left = max(0, d.keys-topDenied)
	for i, row := range a.denied() {
		style, text := output.AtEnd, "since "+ago(row.Since, d.now)+", last "+ago(row.LastAt, d.now)
		switch {
		case row.shadow:
			style, text = output.Faint, "would be denied by a shadow limit"
		case row.LastAt.Until(d.now) > admin.DenialPause:
			text = "over since " + ago(row.LastAt, d.now)
		}
		made.add(d.count(row.Count), row.key.Subject, row.key.Name, text)
		made.rows[i][0].Style = style
	}
	return made
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
	}{output.SchemaVersion, output.UTC(a.now), a.place, append([]published.Process{}, a.processes...), []allowance.Document{},
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
		add(partOverrides, o.ExpiresAt, o.By, allowance.Effect(o), allowance.Whom(o), allowance.Pattern(o.Names), "", o.Reason)
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
