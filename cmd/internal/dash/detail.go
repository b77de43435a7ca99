package dash

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// detailView is the screen about one key.
type detailView struct {
	key    source.ID
	read   *source.Detail // nil until the store has answered
	scroll int
}

// absorb takes in what was read. It may be of the key that was looked at before.
func (v *detailView) absorb(read *source.Detail) {
	if v.read = read; read != nil && read.Of != v.key {
		v.read = nil
	}
}

func (v *detailView) move(m *model, by int) { v.scroll = m.scrollBy(v.scroll, by, v.text(m)) }

func (v *detailView) enter(*model) tea.Cmd { return nil }

func (v *detailView) click(*model, int, int) tea.Cmd { return nil }

func (v *detailView) hints(m *model) string {
	switch {
	case m.mayChange() && m.isOthers():
		return "esc back  r reset"
	case m.mayChange():
		return "esc back  r reset  o override"
	}
	return "esc back"
}

func (v *detailView) lines(m *model) []line { return m.textFrom(v.scroll, v.text(m)) }

// text is everything about the key.
func (v *detailView) text(m *model) []line {
	r := m.feed.rows[v.key]
	if r == nil {
		return []line{nil, plain("  " + output.Printable(v.key.String()) + " is not followed any more; esc goes back")}
	}
	var lines []line
	const indent = 14
	sayLines := func(name string, parts []string, style output.Style) {
		for i, part := range parts {
			label := ""
			if i == 0 {
				label = name
			}
			lines = append(lines, line{{pad(label, indent, false), output.Faint}, {part, style}})
		}
	}
	say := func(name, text string, style output.Style) { sayLines(name, output.Wrap(text, m.width-indent), style) }
	say("subject", output.Printable(r.Key.Subject), bold)
	say("limit", output.Printable(r.Key.Name), output.Plain)
	sayDenied := func() {
		if r.DeniedRate() > 0 {
			text := figures.Short(r.DeniedRate()) + " a second lately"
			if since := r.Denial.Since; !since.IsZero() {
				text += ", since " + figures.Until(since, m.now)
			}
			if !r.IsDenied(m.now) {
				text += ", none in the last seconds"
			}
			say("denied", text+fmt.Sprintf("; that is %s of what was asked for, if each request is of 1 unit", r.PercentDenied()),
				output.AtEnd)
		}
		switch o := m.rules().Override(r.Key); {
		case o != nil:
			sayLines("override", figures.OverrideText(o, m.now), output.Near)
		case m.feed.overrides.problem != nil:
			say("override", "not known: "+source.OneLine(m.feed.overrides.problem), output.Near)
		}
	}
	if !r.Found() {
		say("state", "unused", output.Plain)
		sayDenied()
		return lines
	}
	if r.LimitKnown() {
		say("", r.Limit.String()+": "+figures.LimitWords(r.Limit), output.Plain)
	} else {
		say("", r.LimitText()+": its keys do not tell the rest of it", output.Plain)
	}
	if r.Recorded != (store.Limit{}) {
		say("", "last charged under "+r.Recorded.String(), output.Faint)
	}
	if r.Layout != "" {
		say("layout", r.Layout, output.Plain)
		if text := source.WhatIsKnown(&r.Entry); text != "" {
			say("not known", text, output.Plain)
		}
	}
	if r.Parts != nil {
		text := ""
		for _, attribute := range r.Parts.Attributes {
			text += " " + attribute.Name + "=" + output.Printable(attribute.Value)
		}
		say("attributes", text, output.Plain)
	}
	state := fmt.Sprintf("%s of %s used, %s remaining, %s a second lately",
		output.Thousands(r.Used), output.Thousands(r.Limit.Capacity()), output.Thousands(r.Remaining), figures.Short(r.Rate()))
	switch {
	case !r.InUse:
		state = "unused"
	case r.IsUnknown():
		state = usedOf(r) + " used"
	}
	say("state", state, closeness(r))
	sayLines("defect", defectLines(r, m.width-indent), output.AtEnd)
	sayDenied()
	if r.InUse {
		ttl := "expires in " + output.Duration(r.TTL)
		if r.TTL < 0 {
			if ttl = "never expires"; r.Layout == "" {
				ttl += ", because something else removed its expiry"
			}
		}
		resets := "not known"
		switch {
		case source.NeverBegins(&r.Entry):
			resets, ttl = "never", "the key does not expire"
		case r.ResetKnown():
			resets = figures.Seconds(r.ResetAfter)
		}
		say("resets in", resets+", "+ttl, output.Plain)
	}
	if d := v.read; d != nil {
		for i, fit := range d.Fits {
			label := ""
			if i == 0 {
				label = "next fits"
			}
			say(label, fitWords(&fit, m.now), output.Plain)
		}
	}
	top := lines
	lines = nil
	if d := v.read; d != nil && len(d.Record) > 0 {
		text := hex.EncodeToString(d.Record[:min(len(d.Record), shownBytes)])
		if len(d.Record) > shownBytes {
			text += "…"
		}
		say("record", fmt.Sprintf("%d bytes: %s", len(d.Record), text), output.Plain)
	}
	if d := v.read; d != nil && len(d.Parts) > 0 {
		sayLines("store keys", partLines(d, m.width-indent), output.Plain)
	} else {
		say("store key", output.Printable(r.StoreKey), output.Plain)
	}
	for i, command := range m.looks(r, v.read) {
		label := ""
		if i == 0 {
			label = "look yourself"
		}
		sayLines(label, output.Break(command, m.width-indent), output.Plain)
	}
	for _, text := range m.beyond([]source.ID{r.ID()}) {
		say("reset", "It does not reach everything. "+output.Printable(text), output.Plain)
	}
	const around = 3 // an empty line on each side of the graph, and the one that says what it is
	graph := m.graphLines(r, max(3, min(12, m.bodyHeight()-len(top)-len(lines)-around)))
	return slices.Concat(top, []line{nil}, graph, []line{nil}, lines)
}

// looks are the commands that show the values of a row. d is what was read of it, or nil.
func (m *model) looks(r *followed.Row, d *source.Detail) (commands []string) {
	if m.LookYourself == nil {
		return nil
	}
	parts := []admin.Member{{StoreKey: r.StoreKey}}
	if d != nil && len(d.Parts) > 0 {
		parts = d.Parts
	} else if r.Layout != "" { // the type is not known yet
		return nil
	}
	for i := range parts {
		if command := m.LookYourself(parts[i].StoreKey, parts[i].Type); command != "" {
			commands = append(commands, command)
		}
	}
	return commands
}

// graphLines are what was used of the key over all that is remembered, in a graph that
// is height lines high.
func (m *model) graphLines(r *followed.Row, height int) []line {
	const labels = 5
	columns := max(1, min(m.width-labels, figures.HistoryLength))
	var lines []line
	for i, drawn := range graph(r.Shares.Columns(m.now, figures.HistoryLength, columns), height) {
		label := ""
		switch i {
		case 0:
			label = "100%"
		case height - 1:
			label = "0%"
		}
		lines = append(lines, append(line{{pad(label, labels-1, true) + "▕", output.Faint}}, drawn...))
	}
	return append(lines, styled("     used over the last "+output.Duration(figures.HistoryLength*time.Second), output.Faint))
}

// shownBytes is how much of a record is shown.
const shownBytes = 64

func fitWords(f *source.Fit, now time.Time) string {
	units := output.Plural(int(f.Units), "unit")
	if f.In == 0 {
		return units + ": now"
	}
	return fmt.Sprintf("%s: in %s, at %s", units, output.Duration(f.In), f.At.In(now.Location()).Format("15:04:05.000"))
}
