package dash

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// detailView is about one key: a page, or on a wide screen a pane beside the list, whose cursor it then follows.
type detailView struct {
	key    ID
	read   *detail // nil until the store has answered
	scroll int
}

const (
	// leastForPane is how many columns a screen has on which the detail is a pane.
	leastForPane = 140
	// mostOfPane is how many columns of it are of use to the detail. It has two fifths of the screen.
	mostOfPane = 90
	divider    = " │ "
)

// isBeside reports whether the detail is a pane beside the list, in which all keys of the list work.
func (m *model) isBeside() bool { return m.screen == &m.detail && m.width >= leastForPane }

// listsKeys reports whether the list of keys is on the screen.
func (m *model) listsKeys() bool { return m.screen == &m.keys || m.isBeside() }

// listWidth is how many columns the list of keys has.
func (m *model) listWidth() int {
	if m.isBeside() {
		return m.width - m.detailWidth() - width(divider)
	}
	return m.width
}

func (m *model) detailWidth() int {
	if m.isBeside() {
		return min(m.width*2/5, mostOfPane)
	}
	return m.width
}

// follow shows another key.
func (v *detailView) follow(r *row) {
	if r != nil && r.ID() != v.key {
		*v = detailView{key: r.ID()}
	}
}

// absorb takes in what was read. It may be of the key that was looked at before.
func (v *detailView) absorb(read *detail) {
	if v.read = read; read != nil && read.Of != v.key {
		v.read = nil
	}
}

func (v *detailView) move(m *model, by int) {
	if m.isBeside() {
		m.keys.move(m, by)
	} else {
		v.scrollBy(m, by)
	}
}

func (v *detailView) scrollBy(m *model, by int) { v.scroll = m.scrollBy(v.scroll, by, v.text(m)) }

// scrolls scrolls the detail, also where the cursor moves in the list.
func scrolls(by int) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd {
		m.detail.scrollBy(m, by)
		return nil
	}
}

func (v *detailView) enter(m *model) tea.Cmd {
	if m.isBeside() && m.keys.common > 0 {
		return m.keys.enter(m)
	}
	return nil
}

func (v *detailView) click(m *model, x, line int) tea.Cmd {
	if m.isBeside() && x < m.listWidth() {
		return m.keys.click(m, x, line)
	}
	return nil
}

func (v *detailView) hints(m *model) string {
	hints := "esc back"
	if m.isBeside() {
		hints = "esc close  J K scroll  / filter"
	}
	if m.mayChange() {
		if hints += "  r reset"; !m.isOthers() {
			hints += "  o override"
		}
	}
	return hints
}

func (v *detailView) lines(m *model) []line {
	text := m.textFrom(v.scroll, v.text(m))
	if !m.isBeside() {
		return text
	}
	lines := make([]line, m.bodyHeight())
	list := m.keys.lines(m)
	for i := range lines {
		var l line
		if i < len(list) {
			l = list[i].fit(m.listWidth())
		}
		space := strings.Repeat(" ", m.listWidth()-l.width())
		l = append(slices.Clip(l), span{space, output.Plain}, span{divider, output.Faint})
		if i < len(text) {
			l = append(l, text[i].fit(m.detailWidth())...)
		}
		lines[i] = l
	}
	return lines
}

// detailText is the text about a key: names at the left, and what there is to say at the right.
type detailText struct {
	lines   []line
	columns int
}

// detailIndent is how many columns the names have.
const detailIndent = 14

func (t *detailText) parts(name string, parts []string, style output.Style) {
	for _, part := range parts {
		t.draw(name, line{{part, style}})
		name = ""
	}
}

func (t *detailText) say(name, text string, style output.Style) {
	t.parts(name, output.Wrap(text, max(8, t.columns-detailIndent)), style)
}

func (t *detailText) draw(name string, l line) {
	t.lines = append(t.lines, append(line{{pad(name, detailIndent, false), output.Faint}}, l...))
}

// text is everything about the key: first what an operator asks at night, which limit is in force, what is used and
// denied, and why.
func (v *detailView) text(m *model) []line {
	r := m.feed.rows[v.key]
	if r == nil {
		return []line{nil, plain("  " + output.Printable(v.key.String()) + " is not followed any more; esc goes back")}
	}
	t := &detailText{columns: m.detailWidth()}
	t.say("subject", output.Printable(r.Key.Subject), bold)
	t.say("limit", output.Printable(r.Key.Name), output.Plain)
	if r.Found() {
		if r.LimitKnown() {
			t.say("", r.Limit.String()+": "+limitWords(r.Limit), output.Plain)
		} else {
			t.say("", r.LimitText()+": its keys do not tell the rest of it", output.Plain)
		}
	}
	if r.Recorded != (store.Limit{}) {
		t.say("", "last charged under "+r.Recorded.String(), output.Faint)
	}
	t.say("state", stateText(r), closeness(r))
	v.sayDenied(m, t, r)
	t.parts("defect", defectLines(r, t.columns-detailIndent), output.AtEnd)
	if r.InUse {
		t.say("resets in", resetsText(r), output.Plain)
	}
	if d := v.read; d != nil {
		name := "next fits"
		for i := range d.Fits {
			t.say(name, fitWords(&d.Fits[i], m.now), output.Plain)
			name = ""
		}
	}
	t.lines = append(t.lines, nil)
	v.sayMinutes(m, t, r)
	t.lines = append(t.lines, nil)
	if r.Layout != "" {
		t.say("layout", r.Layout, output.Plain)
		if text := whatIsKnown(&r.Entry); text != "" {
			t.say("not known", text, output.Plain)
		}
	}
	if r.Parts != nil {
		text := ""
		for _, attribute := range r.Parts.Attributes {
			text += " " + attribute.Name + "=" + output.Printable(attribute.Value)
		}
		t.say("attributes", text, output.Plain)
	}
	v.sayStored(m, t, r)
	return t.lines
}

// stateText says what is used and left.
func stateText(r *row) string {
	switch {
	case !r.InUse:
		return "unused"
	case r.IsUnknown():
		return usedOf(r) + " used"
	}
	return fmt.Sprintf("%s of %s used, %s remaining, %s a second lately",
		output.Thousands(r.Used), output.Thousands(r.Limit.Capacity()), output.Thousands(r.Remaining), shortNumber(r.Rate()))
}

// resetsText says when nothing is used any more, and when the key expires.
func resetsText(r *row) string {
	ttl := "expires in " + output.Duration(r.TTL)
	if r.TTL < 0 {
		if ttl = "never expires"; r.Layout == "" {
			ttl += ", because something else removed its expiry"
		}
	}
	resets := "not known"
	switch {
	case neverBegins(&r.Entry):
		resets, ttl = "never", "the key does not expire"
	case r.ResetKnown():
		resets = seconds(r.ResetAfter)
		if end, has := r.LastLimit().WindowEnds(); has {
			resets += " (" + output.Minute(end) + ")"
		}
	}
	return resets + ", " + ttl
}

// sayDenied says how much is denied and since when, and which override decides that.
func (v *detailView) sayDenied(m *model, t *detailText, r *row) {
	if r.DeniedRate() > 0 {
		text := shortNumber(r.DeniedRate()) + " a second lately"
		if since := r.Denial.Since; !since.IsZero() {
			text += ", since " + until(since, m.now)
		}
		if !r.IsDenied(m.now) {
			text += ", none in the last seconds"
		}
		t.say("denied", text+fmt.Sprintf("; that is %s of what was asked for, if each request is of 1 unit", r.PercentDenied()),
			output.AtEnd)
	}
	switch o := m.rules().Override(r.Key); {
	case o != nil:
		for i, text := range overrideText(o, m.now) {
			t.say([]string{"override", "", ""}[i], text, output.Near)
		}
	case m.feed.overrides.problem != nil:
		t.say("override", "not known: "+oneLine(m.feed.overrides.problem), output.Near)
	}
}

// sayMinutes says what was used, taken and denied in each of the last minutes, and draws how what is used has changed.
func (v *detailView) sayMinutes(m *model, t *detailText, r *row) {
	const cell, mostGraph = 8, 60 // columns; of a graph one is five seconds
	minutes := max(1, min((t.columns-detailIndent)/cell, historyLength/60))
	row := func(name string, style output.Style, text func(ago int) string) {
		var cells string
		for ago := minutes; ago > 0; ago-- {
			cells += pad(text(ago), cell, true)
		}
		t.draw(name, styled(cells, style))
	}
	sum := func(h *history) func(ago int) string {
		return func(ago int) string {
			if sum, known := h.Sum(m.now.Unix()-int64(60*ago), m.now.Unix()-int64(60*(ago-1))); known {
				return output.Thousands(int64(math.Round(sum)))
			}
			return ""
		}
	}
	shares := r.Shares.Columns(m.now, 60*minutes, minutes)
	row("minutes", output.Faint, func(ago int) string { return fmt.Sprintf("-%dm", ago) })
	row("  most used", output.Plain, func(ago int) string {
		if share := shares[minutes-ago]; !isNaN(share) {
			return fmt.Sprintf("%.0f%%", math.Floor(float64(share)*100))
		}
		return ""
	})
	row("  taken", output.Plain, sum(&r.Units))
	if r.Denial != nil {
		row("  denied", output.AtEnd, sum(&r.Denial.Counts))
	}
	columns := max(1, min(t.columns-detailIndent, minutes*cell, mostGraph))
	t.draw("  used", sparks(r.Shares.Columns(m.now, 60*minutes, columns), 1, shareStyle))
}

// sayStored says how the key is stored, and how to look at that.
func (v *detailView) sayStored(m *model, t *detailText, r *row) {
	if d := v.read; d != nil && len(d.Record) > 0 {
		text := hex.EncodeToString(d.Record[:min(len(d.Record), shownBytes)])
		if len(d.Record) > shownBytes {
			text += "…"
		}
		t.say("record", fmt.Sprintf("%d bytes: %s", len(d.Record), text), output.Plain)
	}
	if d := v.read; d != nil && len(d.Parts) > 0 {
		var lines []string
		for i := range d.Parts {
			lines = append(lines, output.Wrap(d.PartText(i), t.columns-detailIndent)...)
		}
		t.parts("store keys", lines, output.Plain)
	} else if r.StoreKey != "" {
		t.say("store key", output.Printable(r.StoreKey), output.Plain)
	}
	for _, text := range m.beyond([]ID{r.ID()}) {
		t.say("reset", "It does not reach everything. "+output.Printable(text), output.Plain)
	}
}

// shownBytes is how much of a record is shown.
const shownBytes = 64

func fitWords(f *fit, now time.Time) string {
	units := output.Plural(int(f.Units), "unit")
	if f.In == 0 {
		return units + ": now"
	}
	return fmt.Sprintf("%s: in %s, at %s", units, output.Duration(f.In), f.At.In(now.Location()).Format("15:04:05.000"))
}

// defectLines are the defects of a row in words.
func defectLines(r *row, columns int) (lines []string) {
	for _, d := range r.Defects {
		text := d.Text
		if d.Stuck {
			text += "; waiting does not help, and a reset (r) does"
		}
		lines = append(lines, output.Wrap(output.Printable(text), columns)...)
	}
	return lines
}
