// Package detail is the dashboard's screen of one key. Below the list of keys its beginning is shown for the selected one.
package detail

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Model is the screen.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	ui.Text
}

// New returns the screen of the key that the feed reads by itself.
func New(feed *live.Feed, theme *ui.Theme) *Model {
	return &Model{feed: feed, theme: theme}
}

// View draws the screen in so many columns and lines.
func (m *Model) View(width, height int) string {
	return m.Show(m.lines(width), width, height)
}

// Summary is the beginning of the text: what an operator asks at night.
func (m *Model) Summary(width, lines int) []string {
	all := m.lines(width)
	return all[:min(lines, len(all))]
}

// text is the text about a key: names at the left, and what there is to say at the right.
type text struct {
	theme   *ui.Theme
	lines   []string
	columns int
}

// indent is how many columns the names have.
const indent = 14

func (t *text) draw(name, line string) {
	t.lines = append(t.lines, ui.Fit(ui.Pad(t.theme.Faint.Of(name), indent)+line, t.columns))
}

func (t *text) say(name, words string, style ui.Style) {
	for _, part := range output.Wrap(words, max(8, t.columns-indent)) {
		t.draw(name, style.Of(part))
		name = ""
	}
}

// lines are everything about the key: first which limit is in force, what is used and denied, and why.
func (m *Model) lines(columns int) []string {
	if m.feed.Wanted == nil {
		return nil
	}
	id := *m.feed.Wanted
	r := m.feed.Rows[id]
	if r == nil {
		return []string{m.theme.Plain.Of(output.Printable(id.String()) + " is not followed any more; esc goes back")}
	}
	plain := m.theme.Plain
	t := &text{theme: m.theme, columns: columns}
	t.say("subject", output.Printable(r.Key.Subject), m.theme.Bold)
	limit := output.Printable(r.Key.Name)
	switch {
	case !r.Found():
	case r.LimitKnown():
		limit += "  " + r.Limit.String()
	default:
		limit += "  " + r.LimitText() + ": its keys do not tell the rest of it"
	}
	t.say("limit", limit, plain)
	if r.Recorded != (store.Limit{}) {
		t.say("", "last charged under "+r.Recorded.String(), m.theme.Faint)
	}
	share := m.theme.Share(r.UsedShare())
	if r.IsUnknown() || !r.InUse {
		share = plain
	}
	t.say("state", stateText(r), share)
	m.denied(t, r)
	for _, d := range r.Defects {
		words := output.Printable(d.Text)
		if d.Stuck {
			words += "; waiting does not help, and a reset (r) does"
		}
		t.say("defect", words, m.theme.Near)
	}
	if r.InUse {
		t.say("resets", resetsText(r), plain)
	}
	if d := m.feed.Read; d != nil {
		name := "next fits"
		for i := range d.Fits {
			t.say(name, fitWords(&d.Fits[i], m.feed.Clock), plain)
			name = ""
		}
	}
	t.lines = append(t.lines, "")
	m.minutes(t, r)
	t.lines = append(t.lines, "")
	m.stored(t, r)
	return t.lines
}

// stateText says what is used and left.
func stateText(r *live.Row) string {
	switch {
	case !r.InUse:
		return "unused"
	case r.IsUnknown():
		return live.UsedOf(r) + " used"
	}
	return fmt.Sprintf("%s of %s used, %s remaining, %s a second lately",
		output.Thousands(r.Used), output.Thousands(r.Limit.Capacity()), output.Thousands(r.Remaining), ui.Number(r.Rate()))
}

// resetsText says when nothing is used any more, and when the key expires.
func resetsText(r *live.Row) string {
	ttl := "expires in " + output.Duration(r.TTL)
	if r.TTL < 0 {
		if ttl = "never expires"; r.Layout == "" {
			ttl += ", because something else removed its expiry"
		}
	}
	switch {
	case live.NeverBegins(&r.Entry):
		return "never, the key does not expire"
	case !r.ResetKnown():
		return "not known, " + ttl
	}
	resets := "in " + ui.Seconds(r.ResetAfter)
	if end, has := r.LastLimit().WindowEnds(); has {
		resets += " (" + output.Minute(end) + ")"
	}
	return resets + ", " + ttl
}

// denied says how much is denied and since when, and which override decides that.
func (m *Model) denied(t *text, r *live.Row) {
	if r.DeniedRate() > 0 {
		words, style := ui.Rate(r.DeniedRate())+" a second lately", m.theme.Plain
		if since := r.Denial.Since; !since.IsZero() {
			words += ", since " + ui.Until(since, m.feed.Clock)
		}
		if r.IsDenied(m.feed.Clock) {
			style = m.theme.Denied
		} else {
			words += ", none in the last seconds"
		}
		t.say("denied", words+fmt.Sprintf("; that is %s of what was asked for, if each request is of 1 unit", r.PercentDenied()), style)
	}
	switch o := r.Override; {
	case o != nil:
		for i, words := range ui.Override(o, m.feed.Clock) {
			t.say([]string{"override", "", ""}[i], words, m.theme.Near)
		}
	case m.feed.Overrides.Problem != nil:
		t.say("override", "not known: "+live.OneLine(m.feed.Overrides.Problem), m.theme.Near)
	}
}

// minutes says what was used, taken and denied in each of the last minutes, and draws how what is used has changed.
func (m *Model) minutes(t *text, r *live.Row) {
	const cell, mostGraph = 8, 60 // columns; of a graph one is five seconds
	minutes, now := max(1, min((t.columns-indent)/cell, live.HistoryLength/60)), m.feed.Clock
	row := func(name string, style ui.Style, of func(ago int) string) {
		var cells strings.Builder
		for ago := minutes; ago > 0; ago-- {
			cells.WriteString(ui.PadLeft(of(ago), cell))
		}
		t.draw(name, style.Of(cells.String()))
	}
	sum := func(h *live.History) func(ago int) string {
		return func(ago int) string {
			if sum, known := h.Sum(now.Unix()-int64(60*ago), now.Unix()-int64(60*(ago-1))); known {
				return output.Thousands(int64(math.Round(sum)))
			}
			return ""
		}
	}
	shares := r.Shares.Columns(now, 60*minutes, minutes)
	row("minutes", m.theme.Faint, func(ago int) string { return fmt.Sprintf("-%dm", ago) })
	row("  most used", m.theme.Plain, func(ago int) string {
		if share := shares[minutes-ago]; !live.IsNaN(share) {
			return fmt.Sprintf("%.0f%%", math.Floor(float64(share)*100))
		}
		return ""
	})
	row("  taken", m.theme.Plain, sum(&r.Units))
	if r.Denial != nil {
		row("  denied", m.theme.Plain, sum(&r.Denial.Counts))
	}
	columns := max(1, min(t.columns-indent, minutes*cell, mostGraph))
	t.draw("  used", m.theme.Room.Of(ui.Sparks(r.Shares.Columns(now, 60*minutes, columns), 1)))
}

// shownBytes is how much of a record is shown.
const shownBytes = 64

// stored says how the key is stored, and how to look at that.
func (m *Model) stored(t *text, r *live.Row) {
	plain, d := m.theme.Plain, m.feed.Read
	if r.Layout != "" {
		t.say("layout", r.Layout, plain)
		if words := whatIsKnown(r); words != "" {
			t.say("not known", words, plain)
		}
	}
	if r.Parts != nil {
		words := ""
		for _, attribute := range r.Parts.Attributes {
			words += " " + attribute.Name + "=" + output.Printable(attribute.Value)
		}
		t.say("attributes", words, plain)
	}
	if d != nil && len(d.Record) > 0 {
		words := hex.EncodeToString(d.Record[:min(len(d.Record), shownBytes)])
		if len(d.Record) > shownBytes {
			words += "…"
		}
		t.say("record", fmt.Sprintf("%d bytes: %s", len(d.Record), words), plain)
	}
	if d == nil || len(d.Parts) == 0 {
		if r.StoreKey != "" {
			t.say("store key", output.Printable(r.StoreKey), plain)
		}
	} else {
		for i := range d.Parts {
			t.say([]string{"store keys", ""}[min(i, 1)], partText(d, i), plain)
		}
	}
	if m.feed.Beyond != nil && r.Layout != "" {
		if words := m.feed.Beyond(r.Layout); words != "" {
			t.say("reset", "It does not reach everything. "+output.Printable(words), plain)
		}
	}
}

// partText is one of the store keys that belong together, with its type and how long it is kept.
func partText(d *live.Detail, i int) string {
	part := &d.Parts[i]
	name, about := output.Printable(part.StoreKey), part.Type
	if part.Expires.IsZero() {
		return name + "  " + about + ", never expires"
	}
	return name + "  " + about + ", expires in " + ui.Seconds(part.Expires.Sub(d.At.Time()).Round(time.Millisecond))
}

func fitWords(f *live.Fit, now time.Time) string {
	units := output.Plural(int(f.Units), "unit")
	if f.In == 0 {
		return units + ": now"
	}
	return fmt.Sprintf("%s: in %s, at %s", units, output.Duration(f.In), f.At.In(now.Location()).Format("15:04:05.000"))
}

// whatIsKnown says what is not known of the limit of another limiter, "" if all is.
func whatIsKnown(r *live.Row) string {
	var lacks []string
	if !r.CapacityKnown() {
		lacks = append(lacks, "how much is allowed")
	}
	if r.Limit.Period <= 0 {
		lacks = append(lacks, "in what time")
	}
	if !r.UsedKnown() {
		lacks = append(lacks, "how much is used")
	}
	if len(lacks) == 0 {
		return ""
	}
	return "the keys do not tell " + strings.Join(lacks, ", ") + "; --limit can say the limit"
}
