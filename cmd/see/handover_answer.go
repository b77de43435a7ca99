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

	version   *published.Version // nil if nothing is published
	processes []published.Process
	inForce   []*store.Override
	changes   []*auditlog.Entry // the latest first
	denials   struct {
		notCounted     string // why nobody counts them
		exact          bool   // the counts are; else they are lower bounds
		total, blocked int64
		keys           int
		top, shadows   []admin.Denied
		now            store.Instant
	}
	began *began.Began // nil if nothing began
	// commandOf writes the command of a limit that has one; nil where nothing may be changed.
	commandOf func(*began.Limit) string
	failed    [handoverParts]error // why a part could not be read
}

// part is one part for people: its headline, a row for each thing, and the command that shows all of them.
type part struct {
	headline string
	failure  string // why not all of it can be read
	columns  []output.Column
	rows     [][]output.Cell
	command  string
	shown    int
	left     int        // how many are not among rows
	below    [][]string // the lines below each row; nil for none
	pastes   []string   // the last of them, which is not cut; "" for none
}

// height is how many lines a row takes, with those below it.
func (p *part) height(row, width int) int {
	if p.below == nil {
		return 1
	}
	lines := 1 + len(p.below[row])
	if paste := p.pastes[row]; paste != "" {
		lines++
		if width > 0 {
			lines += (output.Width(paste) + 3) / width
		}
	}
	return lines
}

// more is how many things are not shown.
func (p *part) more() int { return len(p.rows) - p.shown + p.left }

// Print implements output.Answer.
func (a *handoverAnswer) Print(p *output.Printer) {
	parts := []*part{a.configPart(), a.overridesPart(), a.changesPart(), a.beganPart(), a.denialsPart()}
	a.fill(parts, p.Width)
	line := func(style output.Style, text string) {
		if text = output.Escape(text); p.Width > 0 {
			text = output.Cut(text, p.Width)
		}
		p.Line("%s", p.Paint(style, text))
	}
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
				if part.below == nil {
					continue
				}
				for _, note := range part.below[i] {
					line(output.Plain, "    "+note)
				}
				if part.pastes[i] != "" {
					p.Line("    %s", part.pastes[i])
				}
			}
		}
		if part.more() > 0 {
			line(output.Plain, fmt.Sprintf("  … and %d more: %s", part.more(), part.command))
		}
	}
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
func (a *handoverAnswer) beganPart() *part {
	b := a.began
	if b == nil {
		return new(part)
	}
	made := &part{command: "limitctl denials --by limit --sort since", columns: []output.Column{whole, long, whole},
		headline: "BEGAN in the last " + store.FormatPeriod(began.Window) + "  " + a.count(b.Denied) + " denials",
		left:     max(0, len(b.Limits)-mostBegan)}
	for _, l := range b.Limits[:min(mostBegan, len(b.Limits))] {
		made.add(cli.Clock(l.Since, a.now), l.Name, a.count(l.Denied)+" denied, "+cli.CountOf(int64(l.Keys), "key", "keys"))
		var notes []string
		for _, e := range l.Changes[:min(mostBegan, len(l.Changes))] {
			notes = append(notes, "after "+a.what(e)+" "+cli.Clock(e.Time, a.now)+" by "+who(e)+because(e.Reason))
		}
		command := a.command(l)
		if slices.Contains(made.pastes, command) { // one command for several limits is written once
			command = ""
		}
		made.below, made.pastes = append(made.below, notes), append(made.pastes, command)
	}
	return made
}

// command is the command that may help a limit; "" for none.
func (a *handoverAnswer) command(l *began.Limit) string {
	if a.commandOf == nil || l.Command == nil {
		return ""
	}
	return a.commandOf(l)
}

// mostBegan is how many limits that began to deny, and how many changes before each, are shown.
const mostBegan = 3

// count writes a number of denials, marked if it may be more.
func (a *handoverAnswer) count(n int64) string {
	if a.denials.exact {
		return output.Thousands(n)
	}
	return "≥" + output.Thousands(n)
}

func (a *handoverAnswer) denialsPart() *part {
	d := &a.denials
	text := cmp.Or(d.notCounted, "no denial was counted")
	if d.total > 0 {
		text = a.count(d.total) + " denials of " + cli.CountOf(int64(d.keys), "key", "keys")
	}
	if d.blocked > 0 {
		text += "; " + a.count(d.blocked) + " blocked"
	}
	made := a.newPart(partDenials, "DENIED in the last "+store.FormatPeriod(began.Window), d.keys, text,
		"limitctl denials", output.Column{Right: true}, long, long, output.Column{Drops: 1})
	made.left = d.keys - len(d.top)
	for i, row := range slices.Concat(d.top, d.shadows) {
		style := output.AtEnd
		text := "since " + ago(row.Since, d.now) + ", last " + ago(row.LastAt, d.now)
		if row.LastAt.Until(d.now) > admin.DenialPause {
			text = "over since " + ago(row.LastAt, d.now)
		}
		if i >= len(d.top) {
			style, text = output.Faint, "would be denied by a shadow limit"
		}
		made.add(a.count(row.Count), row.Key.Subject, row.Key.Name, text)
		made.rows[i][0].Style = style
	}
	return made
}

type deniedDocument struct {
	Key     string    `json:"key"`
	Name    string    `json:"name"`
	Denied  int64     `json:"denied"`
	LastAt  time.Time `json:"last_at"`
	Blocked int64     `json:"blocked"` // by an override
	Since   time.Time `json:"since"`
	Shadow  bool      `json:"shadow,omitempty"` // a shadow limit would have denied it; the sums leave that out
}

// runsDocument is a process and the version that it has.
type runsDocument struct {
	Name    string `json:"name"`
	Host    string `json:"host"`
	Version int64  `json:"version"` // 0 for a file
	Current bool   `json:"current"`
	Error   string `json:"error,omitempty"` // why it has another one
}

type unreadDocument struct {
	Part  string `json:"part"` // config, overrides, changes or denials
	Error string `json:"error"`
}

// partNames are the names of the parts in JSON and CSV.
var partNames = [handoverParts]string{"config", "overrides", "changes", "denials"}

// Document implements output.Answer.
func (a *handoverAnswer) Document() any {
	type denials struct {
		LastMS  int64            `json:"last_ms"`
		Exact   bool             `json:"exact"`
		Denied  int64            `json:"denied"`
		Blocked int64            `json:"blocked"`
		Keys    int              `json:"keys"`
		Top     []deniedDocument `json:"top"` // the subjects with the most denials
	}
	d := denials{began.Window.Milliseconds(), a.denials.exact, a.denials.total, a.denials.blocked,
		a.denials.keys, []deniedDocument{}}
	for i, row := range slices.Concat(a.denials.top, a.denials.shadows) {
		d.Top = append(d.Top, deniedDocument{row.Key.Subject, row.Key.Name, row.Count, output.UTC(row.LastAt.Time()),
			row.Blocked, output.UTC(row.Since.Time()), i >= len(a.denials.top)})
	}
	type beganLimit struct {
		Name    string            `json:"name"`
		Denied  int64             `json:"denied"` // of the keys that it began to deny
		Keys    int               `json:"keys"`
		Since   time.Time         `json:"since"`             // of the first of them
		Changes []*auditlog.Entry `json:"changes"`           // that were about one of them just before, the latest first
		Command string            `json:"command,omitempty"` // that may help
	}
	type beganDocument struct {
		Denied int64        `json:"denied"`
		Limits []beganLimit `json:"limits"` // that began to deny, those that denied most first
	}
	var lately *beganDocument
	if b := a.began; b != nil {
		lately = &beganDocument{Denied: b.Denied}
		for _, l := range b.Limits {
			lately.Limits = append(lately.Limits,
				beganLimit{l.Name, l.Denied, l.Keys, output.UTC(l.Since), l.Changes, a.command(l)})
		}
	}
	overrides := []allowance.Document{}
	for _, o := range a.inForce {
		overrides = append(overrides, allowance.NewDocument(o))
	}
	processes := []runsDocument{}
	for i := range a.processes {
		p := &a.processes[i]
		processes = append(processes, runsDocument{p.Name, p.Host, p.Version, p.Has(a.version.Number, a.version.Hash), p.Error})
	}
	unread := []unreadDocument{}
	for i, err := range a.failed {
		if err != nil {
			unread = append(unread, unreadDocument{partNames[i], cli.Message(err)})
		}
	}
	return struct {
		SchemaVersion int                  `json:"schema_version"`
		At            time.Time            `json:"at"`
		Place         string               `json:"place"`     // the context, or the store
		Processes     []runsDocument       `json:"processes"` // that follow what is published
		Overrides     []allowance.Document `json:"overrides"`
		Changes       []*auditlog.Entry    `json:"changes"` // of the last 12 hours, the latest first
		Began         *beganDocument       `json:"began"`   // null if no denials began in the last 10 minutes
		Denials       denials              `json:"denials"`
		Unread        []unreadDocument     `json:"unread"` // the parts that could not be read whole
	}{output.SchemaVersion, output.UTC(a.now), a.place, processes, overrides, a.changes, lately, d, unread}
}

// Records implements output.Answer.
func (a *handoverAnswer) Records() [][]string {
	records := [][]string{{"part", "at", "by", "what", "subject", "name", "denied", "reason"}}
	for _, o := range a.inForce {
		records = append(records, []string{partNames[partOverrides], o.ExpiresAt.UTC().Format(time.RFC3339), o.By,
			allowance.Effect(o), allowance.Whom(o), allowance.Pattern(o.Names), "", o.Reason})
	}
	for _, e := range a.changes {
		records = append(records, []string{partNames[partChanges], e.Time.UTC().Format(time.RFC3339), e.User,
			e.CommandText(), "", "", "", e.Reason})
	}
	for i, row := range slices.Concat(a.denials.top, a.denials.shadows) {
		what := map[bool]string{true: "shadow"}[i >= len(a.denials.top)]
		records = append(records, []string{partNames[partDenials], row.LastAt.Time().UTC().Format(time.RFC3339), "", what, row.Key.Subject,
			row.Key.Name, cli.Number(row.Count), ""})
	}
	return records
}
