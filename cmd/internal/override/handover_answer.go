package override

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The parts of a handover, in the order in which they are shown.
const (
	partOverrides = iota
	partChanges
	partDenials
	handoverParts
)

// handoverAnswer is what the next shift has to know.
type handoverAnswer struct {
	now   time.Time
	place string
	rows  int // of the terminal; 0 for no bound

	inForce overrideAnswer
	changes []*auditlog.Entry // the latest first
	denials struct {
		exact          bool // the counts are; else they are lower bounds
		total, blocked int64
		keys           int
		top            []admin.Denied
		now            store.Instant
	}
	failed [handoverParts]error // why a part could not be read
}

// part is one part for people: its headline, its items with their lines, and the command that shows all of them.
type part struct {
	headline string
	items    [][]string
	command  string
	shown    int
	left     int  // how many are not among items
	brief    bool // each thing takes one row
}

// lines is how many lines the part takes on a terminal of that width.
func (p *part) lines(width int) int {
	n := rowsOf(p.headline, width)
	for _, item := range p.items[:p.shown] {
		n += len(item)
	}
	if more := p.moreText(); more != "" {
		n += rowsOf(more, width)
	}
	return n
}

// moreText says how many items are not shown, and where they are; it is empty if all are, and in a brief part, whose headline
// has the number of all.
func (p *part) moreText() string {
	if p.more() == 0 || p.brief {
		return ""
	}
	return fmt.Sprintf("  … and %d more: %s", p.more(), p.command)
}

// rowsOf is how many rows of a terminal a line takes, which the terminal itself breaks.
func rowsOf(line string, width int) int {
	if width <= 0 {
		return 1
	}
	return max(1, (output.Width(output.Escape(line))+width-1)/width)
}

// more is how many items are not shown.
func (p *part) more() int { return len(p.items) - p.shown + p.left }

// Print implements output.Answer. On a terminal that is too small for something of each part, each thing gets one row, so
// that there is room for what is in force and for the last changes.
func (a *handoverAnswer) Print(p *output.Printer) {
	parts := []*part{a.overridesPart(p), a.changesPart(p), a.denialsPart(p)}
	first := "handover of " + a.now.Format("2006-01-02 15:04 MST")
	place := " in " + output.Printable(a.place)
	a.fill(p, parts, first+place)
	if slices.ContainsFunc(parts, func(p *part) bool { return p.shown == 0 && len(p.items) > 0 }) {
		first = a.now.Format("15:04 MST")
		place = output.Cut(place, max(p.Width-output.Width(first), 1))
		for _, part := range parts {
			part.shorten(p.Width)
		}
		a.fill(p, parts, first+place)
	}
	p.Line("%s%s", p.Paint(output.Faint, first), place)
	for i, part := range parts {
		style := output.Bold
		if a.failed[i] != nil {
			style = output.AtEnd
		}
		p.Line("%s", p.Paint(style, part.headline))
		for _, item := range part.items[:part.shown] {
			for _, line := range item {
				fmt.Fprintln(p.Out, line)
			}
		}
		if more := part.moreText(); more != "" {
			p.Line("%s", more)
		}
	}
}

// shorten gives the headline and each item a row.
func (p *part) shorten(width int) {
	p.shown, p.brief, p.headline = 0, true, output.Cut(p.headline, width)
	for i, item := range p.items {
		if len(item) > 1 {
			p.items[i] = []string{output.Cut(item[0]+" …", width)}
		}
	}
}

// fill gives the parts items in turn below a title, as far as they fit, so that a long part leaves room for the others.
func (a *handoverAnswer) fill(p *output.Printer, parts []*part, title string) {
	around := rowsOf(title, p.Width) + 1 // and that of the shell
	if err := a.err(); err != nil {
		around += rowsOf("limitctl: "+cli.Message(err), p.Width)
	}
	total := func() int {
		n := around
		for _, part := range parts {
			n += part.lines(p.Width)
		}
		return n
	}
	for progress := true; progress; {
		progress = false
		for _, part := range parts {
			if part.shown == len(part.items) {
				continue
			}
			part.shown++
			if a.rows > 0 && total() > a.rows {
				part.shown--
				continue
			}
			progress = true
		}
	}
}

// newPart returns a part with so many things read, which count says in words. If it could not be read, or not whole, the
// reason is its first item.
func (a *handoverAnswer) newPart(p *output.Printer, which int, name string, read int, count, command string) *part {
	made := &part{headline: name + "  " + count, command: command}
	if err := a.failed[which]; err != nil {
		made.headline += "; not all can be read"
		if read == 0 { // then there may be any number
			made.headline = name + "  cannot be read"
		}
		made.items = append(made.items, indented(p, "  ", "  ", cli.Message(err)))
	}
	return made
}

// indented breaks a text into lines that fit the terminal, at most three. Only what people wrote is so long.
func indented(p *output.Printer, first, others, text string) []string {
	const most = 3
	width := 0
	if p.Width > 0 {
		width = max(p.Width-len(others), 1)
	}
	lines := output.Wrap(text, width)
	if len(lines) > most {
		lines = lines[:most]
		lines[most-1] = output.Cut(lines[most-1]+" …", width)
	}
	for i, line := range lines {
		lines[i] = others + line
		if i == 0 {
			lines[i] = first + line
		}
	}
	return lines
}

// broken breaks a text into lines that fit the terminal, as many as it needs: what it names is not cut.
func broken(p *output.Printer, text string) []string {
	lines := output.Break(text, restWidth(p))
	for i := range lines {
		lines[i] = map[bool]string{true: "  ", false: restIndent}[i == 0] + lines[i]
	}
	return lines
}

func (a *handoverAnswer) overridesPart(p *output.Printer) *part {
	blocks := 0
	for _, o := range a.inForce.overrides {
		if o.Effect == store.OverrideBlock {
			blocks++
		}
	}
	count := cli.CountOf(int64(len(a.inForce.overrides)), "override", "overrides")
	if blocks > 0 {
		count += ", " + cli.CountOf(int64(blocks), "block", "blocks")
	}
	made := a.newPart(p, partOverrides, "IN FORCE", len(a.inForce.overrides), count, "limitctl override list")
	for _, o := range a.inForce.overrides {
		what := o.ID + "  " + allowance.Effect(o) + "  " + whomText(o)
		var item []string
		line := "  " + what + "  until " + cli.Clock(o.ExpiresAt, a.now) + ", " + cli.SetBy(o)
		if p.Width > 0 && output.Width(line) <= p.Width {
			item = []string{line}
		} else {
			item = append(broken(p, what), indented(p, restIndent, restIndent, cli.Ending(o, a.now))...)
		}
		if text := a.inForce.nowText(o); text != "" {
			item = append(item, indented(p, restIndent, restIndent, text)...)
		}
		made.items = append(made.items, item)
	}
	return made
}

func (a *handoverAnswer) changesPart(p *output.Printer) *part {
	count := cli.CountOf(int64(len(a.changes)), "run", "runs") + map[bool]string{true: ", the latest first"}[len(a.changes) > 1]
	made := a.newPart(p, partChanges, "CHANGED in the last "+store.FormatPeriod(handoverChanges), len(a.changes), count,
		shell.Command("limitctl", "audit", "--since", store.FormatPeriod(handoverChanges)))
	for _, e := range a.changes {
		text := cli.Clock(e.Time, a.now) + "  " + output.Printable(e.User)
		if e.Host != "" {
			text += "@" + output.Printable(e.Host)
		}
		text += "  " + output.Printable(strings.TrimSpace(e.Command+" "+e.Selection))
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
		made.items = append(made.items, indented(p, "  ", restIndent, text))
	}
	return made
}

func (a *handoverAnswer) denialsPart(p *output.Printer) *part {
	d := &a.denials
	count := func(n int64) string {
		if d.exact {
			return output.Thousands(n)
		}
		return "≥" + output.Thousands(n)
	}
	text := "nobody is known to have been"
	if d.total > 0 {
		text = count(d.total-d.blocked) + " denials of " + cli.CountOf(int64(d.keys), "key", "keys")
	}
	if d.blocked > 0 {
		text += "; " + count(d.blocked) + " blocked"
	}
	made := a.newPart(p, partDenials, "DENIED in the last "+store.FormatPeriod(handoverDenials), d.keys, text, "limitctl denials")
	made.left = d.keys - len(d.top)
	for i := range d.top {
		row := &d.top[i]
		since := max(0, time.Duration(d.now-row.Since)*time.Microsecond).Truncate(time.Second)
		text := count(row.Count-row.Blocked) + "  " + output.Printable(row.Key.Subject) + "  " + output.Printable(row.Key.Name) +
			"  since " + output.Duration(since) + " ago"
		if row.Blocked > 0 {
			text += ", " + count(row.Blocked) + " blocked"
		}
		made.items = append(made.items, broken(p, text))
	}
	return made
}

type deniedDocument struct {
	Key     string    `json:"key"`
	Name    string    `json:"name"`
	Denied  int64     `json:"denied"`
	LastAt  time.Time `json:"last_at"`
	Blocked int64     `json:"blocked"` // of these, by an override
	Since   time.Time `json:"since"`
}

type unreadDocument struct {
	Part  string `json:"part"` // overrides, changes or denials
	Error string `json:"error"`
}

// partNames are the names of the parts in JSON and CSV.
var partNames = [handoverParts]string{"overrides", "changes", "denials"}

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
	d := denials{handoverDenials.Milliseconds(), a.denials.exact, a.denials.total, a.denials.blocked, a.denials.keys, []deniedDocument{}}
	for i := range a.denials.top {
		row := &a.denials.top[i]
		d.Top = append(d.Top, deniedDocument{row.Key.Subject, row.Key.Name, row.Count, output.UTC(row.LastAt.Time()), row.Blocked,
			output.UTC(row.Since.Time())})
	}
	changes := []any{}
	for _, e := range a.changes {
		changes = append(changes, e.Document())
	}
	unread := []unreadDocument{}
	for i, err := range a.failed {
		if err != nil {
			unread = append(unread, unreadDocument{partNames[i], cli.Message(err)})
		}
	}
	return struct {
		SchemaVersion int              `json:"schema_version"`
		At            time.Time        `json:"at"`
		Place         string           `json:"place"` // the context, or the store
		Overrides     []any            `json:"overrides"`
		Changes       []any            `json:"changes"` // of the last 12 hours, the latest first
		Denials       denials          `json:"denials"`
		Unread        []unreadDocument `json:"unread"` // the parts that could not be read whole
	}{output.SchemaVersion, output.UTC(a.now), a.place, a.inForce.Lines(), changes, d, unread}
}

// Records implements output.Answer.
func (a *handoverAnswer) Records() [][]string {
	records := [][]string{{"part", "at", "by", "what", "subject", "name", "denied", "reason"}}
	for _, o := range a.inForce.overrides {
		records = append(records, []string{partNames[partOverrides], o.ExpiresAt.UTC().Format(time.RFC3339), o.By,
			allowance.Effect(o), allowance.Whom(o), allowance.Pattern(o.Names), "", o.Reason})
	}
	for _, e := range a.changes {
		records = append(records, []string{partNames[partChanges], e.Time.UTC().Format(time.RFC3339), e.User,
			strings.TrimSpace(e.Command + " " + e.Selection), "", "", "", e.Reason})
	}
	for i := range a.denials.top {
		row := &a.denials.top[i]
		records = append(records, []string{partNames[partDenials], row.LastAt.Time().UTC().Format(time.RFC3339), "", "", row.Key.Subject,
			row.Key.Name, cli.Number(row.Count), ""})
	}
	return records
}
