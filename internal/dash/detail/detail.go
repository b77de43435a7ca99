// Package detail is the dashboard's screen of one key. Its beginning is shown below the list.
package detail

import (
	"fmt"

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
	// Of is the key that is shown.
	Of store.Key
}

// New returns the screen of a key.
func New(feed *live.Feed, theme *ui.Theme) *Model {
	m := &Model{feed: feed, theme: theme}
	m.Lines = m.lines
	return m
}

type text struct {
	theme   *ui.Theme
	lines   []string
	columns int
}

const indent = 14 // columns for the names

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
	r := m.feed.Rows[m.Of]
	if r == nil {
		return []string{m.theme.Plain.Of(output.Printable(m.Of.String()) + " is not followed any more; esc goes back")}
	}
	plain := m.theme.Plain
	t := &text{theme: m.theme, columns: columns}
	t.say("subject", output.Printable(r.Key.Subject), m.theme.Bold)
	limit := output.Printable(r.Key.Name)
	if r.Found() {
		limit += "  " + r.Limit.String()
	}
	t.say("limit", limit, plain)
	if r.Recorded != (store.Limit{}) {
		t.say("", "last charged under "+r.Recorded.String(), m.theme.Faint)
	}
	share := m.theme.Share(r.UsedShare())
	if !r.InUse {
		share = plain
	}
	t.say("state", stateText(r), share)
	m.denied(t, r)
	if r.InUse {
		t.say("resets", resetsText(r), plain)
	}
	t.lines = append(t.lines, "")
	m.minute(t, r)
	t.lines = append(t.lines, "")
	if r.StoreKey != "" {
		t.say("store key", output.Printable(r.StoreKey), plain)
	}
	return t.lines
}

func stateText(r *live.Row) string {
	if !r.InUse {
		return "unused"
	}
	text := fmt.Sprintf("%s of %s used, %s remaining", output.Thousands(r.Used), output.Thousands(r.Limit.Capacity()),
		output.Thousands(r.Remaining))
	if rate, known := r.Units.Mean(); known {
		text += ", " + ui.Number(rate) + " a second lately"
	}
	return text
}

// resetsText says when nothing is used any more, when one more unit fits, and whether the key expires.
func resetsText(r *live.Row) string {
	text := "in " + ui.Seconds(r.ResetAfter)
	switch end, has := r.LastLimit().WindowEnds(); {
	case r.Limit.FromFirst && r.TTL < 0: // windows that begin with the first request end with their key
		text = "never"
	case has:
		text += " (" + output.Minute(end) + ")"
	}
	if r.AtLimit() && r.RetryAfter > 0 {
		text += ", one more unit fits in " + ui.Seconds(r.RetryAfter)
	}
	if r.TTL < 0 {
		text += "; the key never expires, since something removed its expiry"
	}
	return text
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
		t.say("denied", words, style)
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

func (m *Model) minute(t *text, r *live.Row) {
	const note, most = "  the last minute", 60
	columns := max(1, min(t.columns-indent-len(note), most))
	t.draw("used", m.theme.Room.Of(ui.Sparks(r.Shares.Columns(m.feed.Clock, columns), 1))+m.theme.Faint.Of(note))
	if r.Denial != nil {
		values := r.Denial.Counts.Columns(m.feed.Clock, columns)
		t.draw("denied", m.theme.Denied.Of(ui.Sparks(values, ui.Greatest(values, 0)))+m.theme.Faint.Of(note))
	}
}
