package see

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
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
	failed [handoverParts]error // why a part could not be read
}

// part is one part for people: its headline, a line for each thing, and the command that shows all of them.
type part struct {
	headline string
	items    []string
	command  string
	shown    int
	left     int // how many are not among items
}

// more is how many things are not shown.
func (p *part) more() int { return len(p.items) - p.shown + p.left }

// Print implements output.Answer.
func (a *handoverAnswer) Print(p *output.Printer) {
	parts := [handoverParts]*part{a.configPart(), a.overridesPart(), a.changesPart(), a.denialsPart()}
	a.fill(parts[:])
	line := func(style output.Style, text string) {
		if text = output.Escape(text); p.Width > 0 {
			text = output.Cut(text, p.Width)
		}
		p.Line("%s", p.Paint(style, text))
	}
	line(output.Faint, "handover of "+a.now.Format("2006-01-02 15:04 MST")+" in "+a.place)
	for i, part := range parts {
		if part.headline == "" {
			continue
		}
		style := output.Bold
		if a.failed[i] != nil {
			style = output.AtEnd
		}
		line(style, part.headline)
		for _, item := range part.items[:part.shown] {
			line(output.Plain, "  "+item)
		}
		if part.more() > 0 {
			line(output.Plain, fmt.Sprintf("  … and %d more: %s", part.more(), part.command))
		}
	}
}

// fill gives the parts items in turn, as far as they fit, so that a long part leaves room for the others.
func (a *handoverAnswer) fill(parts []*part) {
	used := 2 // the title, and the line of the shell
	for _, part := range parts {
		if part.headline != "" {
			used += 2 // that, and what is not shown
		}
		if a.rows == 0 {
			part.shown = len(part.items)
		}
	}
	if a.err() != nil {
		used++
	}
	for progress := true; progress && a.rows > 0; {
		progress = false
		for _, part := range parts {
			if part.shown < len(part.items) && used < a.rows {
				part.shown++
				used++
				progress = true
			}
		}
	}
}

// newPart returns a part with so many things read, which count says in words. If it could not be read, or not whole, the
// reason is its first item.
func (a *handoverAnswer) newPart(which int, name string, read int, count, command string) *part {
	made := &part{headline: name + "  " + count, command: command}
	if err := a.failed[which]; err != nil {
		made.headline += "; not all can be read"
		if read == 0 { // then there may be any number
			made.headline = name + "  cannot be read"
		}
		made.items = append(made.items, cli.Message(err))
	}
	return made
}

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
		output.Printable(v.By), output.Printable(v.Reason)), "limitctl config status")
	for i := range a.processes {
		p := &a.processes[i]
		text := output.Printable(p.Name) + " on " + output.Printable(p.Host) + "  version " + p.VersionText()
		switch current := p.Has(v.Number, v.Hash); {
		case p.Compares:
			text = output.Printable(p.Name) + " on " + output.Printable(p.Host) + "  by a file"
		case !current:
			text += "  lags"
		}
		if p.Error != "" {
			text += ": " + output.Printable(p.Error)
		}
		made.items = append(made.items, text)
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
	made := a.newPart(partOverrides, "IN FORCE", len(a.inForce), count, "limitctl override list")
	for _, o := range a.inForce {
		made.items = append(made.items, o.ID+"  "+allowance.Effect(o)+"  "+allowance.WhomText(o)+"  "+cli.Ending(o, a.now))
	}
	return made
}

func (a *handoverAnswer) changesPart() *part {
	count := cli.CountOf(int64(len(a.changes)), "run", "runs") + map[bool]string{true: ", the latest first"}[len(a.changes) > 1]
	made := a.newPart(partChanges, "CHANGED in the last "+store.FormatPeriod(handoverChanges), len(a.changes), count,
		shell.Command("limitctl", "audit", "--since", store.FormatPeriod(handoverChanges)))
	for _, e := range a.changes {
		text := cli.Clock(e.Time, a.now) + "  " + output.Printable(e.User)
		if e.Host != "" {
			text += "@" + output.Printable(e.Host)
		}
		text += "  " + output.Printable(e.CommandText())
		if e.CountsKeys() && e.Outcome != auditlog.Begun { // else it is not known how many
			text += ", " + cli.CountOf(e.Changed, "key", "keys")
		}
		if e.Outcome != auditlog.Done {
			text += ", " + output.Printable(string(e.Outcome))
		}
		if e.Undone != nil {
			text += ", " + e.Undone.Text() + " " + cli.Clock(e.Undone.Time, a.now) + " by " + output.Printable(e.Undone.User)
		}
		if e.Reason != "" {
			text += ": " + output.Printable(e.Reason)
		}
		made.items = append(made.items, text)
	}
	return made
}

func (a *handoverAnswer) denialsPart() *part {
	d := &a.denials
	count := func(n int64) string {
		if d.exact {
			return output.Thousands(n)
		}
		return "≥" + output.Thousands(n)
	}
	text := cmp.Or(d.notCounted, "no denial was counted")
	if d.total > 0 {
		text = count(d.total) + " denials of " + cli.CountOf(int64(d.keys), "key", "keys")
	}
	if d.blocked > 0 {
		text += "; " + count(d.blocked) + " blocked"
	}
	made := a.newPart(partDenials, "DENIED in the last "+store.FormatPeriod(handoverDenials), d.keys, text, "limitctl denials")
	made.left = d.keys - len(d.top)
	for i := range d.top {
		row := &d.top[i]
		since := max(0, time.Duration(d.now-row.Since)*time.Microsecond).Truncate(time.Second)
		text := count(row.Count) + "  " + output.Printable(row.Key.Subject) + "  " + output.Printable(row.Key.Name) +
			"  since " + output.Duration(since) + " ago"
		made.items = append(made.items, text)
	}
	for i := range d.shadows {
		row := &d.shadows[i]
		made.items = append(made.items, count(row.Count)+"  "+output.Printable(row.Key.Subject)+"  "+
			output.Printable(row.Key.Name)+"  would be denied by a shadow limit")
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
	d := denials{handoverDenials.Milliseconds(), a.denials.exact, a.denials.total, a.denials.blocked,
		a.denials.keys, []deniedDocument{}}
	for i, row := range slices.Concat(a.denials.top, a.denials.shadows) {
		d.Top = append(d.Top, deniedDocument{row.Key.Subject, row.Key.Name, row.Count, output.UTC(row.LastAt.Time()),
			row.Blocked, output.UTC(row.Since.Time()), i >= len(a.denials.top)})
	}
	overrides := []allowance.Document{}
	for _, o := range a.inForce {
		overrides = append(overrides, allowance.NewDocument(o))
	}
	changes := []any{}
	for _, e := range a.changes {
		changes = append(changes, e.Document())
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
		Changes       []any                `json:"changes"` // of the last 12 hours, the latest first
		Denials       denials              `json:"denials"`
		Unread        []unreadDocument     `json:"unread"` // the parts that could not be read whole
	}{output.SchemaVersion, output.UTC(a.now), a.place, processes, overrides, changes, d, unread}
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
