package dash

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
)

// View implements tea.Model. It draws exactly as many lines as the terminal has, none wider than it.
func (m *model) View() string {
	head := m.head()
	height := max(0, m.height-len(head)-1)
	body := m.body(height)
	if !m.list.Still {
		for len(body) < height {
			body = append(body, "")
		}
		body = body[:height]
	}
	if box := m.change.View(m.width, height); box != nil {
		top := max(0, (height-len(box))/2)
		for i, text := range box[:min(len(box), height-top)] {
			body[top+i] = strings.Repeat(" ", max(0, (m.width-ui.Width(text))/2)) + text
		}
	} else if m.feed.Problem != nil { // it is out of date
		for i := range body {
			body[i] = m.theme.Faint.Of(ansi.Strip(body[i]))
		}
	}
	lines := append(append(head, body...), m.foot())
	lines = lines[:min(len(lines), m.height)]
	for i := range lines {
		lines[i] = ui.Fit(lines[i], m.width)
	}
	return ui.Join(lines)
}

// body is the screen, with the detail of the selected row below the list where there is room.
func (m *model) body(height int) []string {
	const least, pane = 30, 9
	r := m.list.Current()
	if m.screen != m.list || m.list.Still || m.height < least || height < 2*pane || r == nil {
		return ui.Lines(m.screen.View(m.width, height))
	}
	lines := ui.Lines(m.screen.View(m.width, height-pane))
	for len(lines) < height-pane {
		lines = append(lines, "")
	}
	m.detail.Of = r.Key
	lines = append(lines[:height-pane], m.theme.Faint.Of(strings.Repeat("─", m.width)))
	about := m.detail.Lines(m.width)
	return append(lines, about[:min(pane-1, len(about))]...)
}

// foot is what is asked or said, or else the keys that are needed most.
func (m *model) foot() string {
	t := m.theme
	if line, is := m.list.Typed(); is {
		if m.note.Bad {
			line += "  " + t.Near.Of(m.note.Text)
		}
		return line
	}
	switch {
	case m.list.Still:
		if more := len(m.feed.Listed) - m.list.Page(); more > 0 {
			return t.Faint.Of(fmt.Sprintf("… and %s; a pipe or a pattern shows them", output.Count(more, "more row")))
		}
		return ""
	case m.change.IsAsking():
		return ""
	case m.note.Bad:
		return t.Near.Of(m.note.Text)
	case m.note.Text != "":
		return t.Bold.Of(m.note.Text)
	case m.change.IsActing():
		return t.Bold.Of("working…")
	}
	keys := []ui.Binding{ui.Bind("?", "help", nil, "?"), ui.Bind("q", "quit", nil, "q")}
	if m.screen != m.list {
		keys = append(keys, ui.Bind("esc", "back", nil, "esc"))
	}
	help := t.Help(m.width)
	return help.ShortHelpView(ui.Keys(append(keys, m.acts()...)))
}

// helpLines are all keys that do something in the list, and what there is to know about what it shows.
func (m *model) helpLines(width int) []string {
	keys := ui.Keys(append(append(m.list.Bindings(), m.change.Bindings()...), m.everywhere()...))
	columns := [][]key.Binding{keys}
	if width >= 80 {
		half := (len(keys) + 1) / 2
		columns = [][]key.Binding{keys[:half], keys[half:]}
	}
	help := m.theme.Help(width)
	notes := []string{"DENIED/S is red while it is denied. USED is yellow from 80 %, and bold with nothing left. " +
		"RETRY is " +
		"when one more unit fits, RESETS when nothing is used any more. ALLOWED is the units charged to the keys " +
		"that are " +
		"followed. w lists only the keys of the first cause after why, and pressed again those of the next.",
		"In front of a subject: ? out of date as its server does not answer. ≥ is at least.",
		"A filter is part of a subject or limit, a pattern (acme*), or tenant=acme; ! inverts a word."}
	if m.feed.Actions == nil {
		notes = append(notes, "The context is read-only: nothing can be changed from here.")
	}
	lines := append(ui.Lines(help.FullHelpView(columns)), "")
	for _, text := range ui.Wrapped(notes, width) {
		lines = append(lines, m.theme.Plain.Of(text))
	}
	return lines
}

// head says which store this is, what was allowed and denied in the last minute, and how many keys there are.
func (m *model) head() []string {
	lines := []string{m.title()}
	if f := m.feed; f.Problem != nil {
		since := output.Duration(f.Clock.Sub(f.Answered).Truncate(time.Second))
		const most = 3 // lines
		text := ui.Wrapped([]string{"no answer for " + since + ", retrying: " + live.OneLine(f.Problem)}, m.width)
		for _, part := range text[:min(most, len(text))] {
			lines = append(lines, m.theme.Full.Of(part))
		}
	} else {
		lines = append(lines, m.minute(), m.counts())
		for i := range f.Servers {
			if s := &f.Servers[i]; s.Refuses {
				text := fmt.Sprintf("every take is refused: memory is full, %s used of maxmemory %s  %s",
					output.Bytes(s.UsedMemory), output.Bytes(s.MaxMemory), s.Name)
				lines = append(lines, m.theme.Full.Of(text))
			}
		}
		for i := range f.Away {
			away := &f.Away[i]
			text := "no answer from " + away.Node + ": " + output.Count(len(away.Keys), "key") +
				" marked ? as they were before"
			lines = append(lines, m.theme.Full.Of(text))
		}
	}
	const enough = 16
	if m.height >= enough {
		if text := m.coverage(); text != "" {
			lines = append(lines, m.theme.Faint.Of(text))
		}
	}
	for i := range lines {
		lines[i] = ui.Fit(lines[i], m.width)
	}
	return lines
}

// title is the first line: the store, its context and configuration, and the clock.
func (m *model) title() string {
	t, f := m.theme, m.feed
	text := t.Bold.Of("limitctl ")
	if f.Context != "" {
		text += t.Bold.Of(f.Context + " ")
	}
	if f.Protected {
		text += t.Full.Of("PROTECTED ")
	}
	if f.Actions == nil && !m.list.Still {
		text += t.Bold.Of("read-only ")
	}
	text += t.Plain.Of(f.Where)
	if f.Config != nil && f.Config() != "" {
		text += t.Plain.Of("  by " + f.Config())
	}
	server, rtt, keep, slowest := "", "", m.list.Still, time.Duration(0)
	if n := len(f.Servers); n > 1 {
		server = fmt.Sprintf("  %d masters", n)
	} else if n == 1 && f.Problem == nil {
		s := &f.Servers[0]
		keep = keep || s.Problem != ""
		server = "  " + cmp.Or(s.Problem, strings.TrimSpace(s.Version+" "+s.Role))
	}
	for i := range f.Servers {
		slowest = max(slowest, f.Servers[i].RoundTrip)
	}
	if slowest > 0 {
		rtt = t.Faint.Of(fmt.Sprintf("  rtt %.1f ms", slowest.Seconds()*1000))
	}
	clock, state := t.Plain.Of(f.Clock.Format(time.TimeOnly)), t.Faint.Of("every "+output.Duration(f.Refresh)+"  ")
	if keep || ui.Width(text+server+rtt+clock) < m.width {
		text += t.Faint.Of(server)
	}
	text += rtt
	const between = 2
	if ui.Width(text)+between+ui.Width(state)+ui.Width(clock) <= m.width {
		clock = state + clock
	}
	if m.list.Still {
		return text + "  " + clock
	}
	text = ui.Fit(text, m.width-ui.Width(clock)-1)
	return ui.Pad(text, m.width-ui.Width(clock)) + clock
}

// minute is what was denied and allowed in the last minute. Red is what is denied now. What nobody counts is not 0.
func (m *model) minute() string {
	t, f := m.theme, m.feed
	now, style := "", t.Plain
	d := &f.Denials
	others := d.Others() > 0
	denying := d.Keys > 0 || others
	switch {
	case d.Problem != nil:
		now = "not known"
	case f.NotCounted && !denying && d.ByBlocks() == 0:
		now = "not counted"
	case !d.Known:
		now = "…"
	case !denying:
		now = "0/s"
	default:
		now, style = ui.Rate(d.Total)+"/s", t.Denied
		if d.Lost || others {
			now = "≥" + now
		}
	}
	denied := t.Bold.Of("DENIED ") + style.Of(now)
	if denying {
		denied = style.Of("DENIED " + now)
	}
	charged, allowed := "…", t.Bold.Of("ALLOWED ")
	if rate, known := f.Allowed.Mean(); known {
		if charged = ui.Number(rate) + "/s"; f.Coverage.Full || f.IsScanning() {
			charged = "≥" + charged + " of followed keys"
		}
	}
	allowed += t.Plain.Of(charged)
	const between, least, most = 3, 5, 60
	spark := min(most, (m.width-ui.Width(denied)-ui.Width(allowed)-between)/2-1)
	if spark < least || m.list.Still {
		return denied + strings.Repeat(" ", between) + allowed
	}
	draw := func(h *live.History, style ui.Style) string {
		values := h.Columns(f.Clock, spark)
		return ui.Pad(" "+style.Of(ui.Sparks(values, ui.Greatest(values, 0))), spark+1)
	}
	return denied + draw(&d.Totals, style) + strings.Repeat(" ", between) + allowed + draw(&f.Allowed, t.Room)
}

// counts is how many keys there are. Where there is no room for all, the last goes first.
func (m *model) counts() string {
	t, f := m.theme, m.feed
	keys, atLimit, about, style := f.Tally.InUse, f.Tally.AtLimit, "", t.Plain
	switch {
	case f.IsScanning():
		about = "≥"
	case f.Coverage.Full:
		about, keys, atLimit = "about ", f.Coverage.Matched, max(atLimit, f.Coverage.AtLimit)
	}
	if atLimit > 0 {
		style = t.Full
	}
	noun := map[bool]string{true: " key, ", false: " keys, "}[keys == 1]
	text := t.Plain.Of(about+output.Thousands(keys)+noun) +
		style.Of(about+output.Thousands(atLimit)+" at the limit")
	add := func(style ui.Style, n int, least bool, noun, more string) {
		words := output.Count(n, noun) + more
		if least {
			words = "≥" + words
		}
		if n > 0 && ui.Width(text)+2+ui.Width(words) <= m.width {
			text += ", " + style.Of(words)
		}
	}
	all, blocks := f.Overrides.InForce(f.Clock), 0
	for i := range all {
		if live.IsBlock(&all[i]) {
			blocks++
		}
	}
	blocked := ""
	if rate := f.Denials.ByBlocks(); rate > 0 {
		blocked = " denying " + ui.Rate(rate) + "/s"
	}
	add(t.Plain, f.Denials.Keys, f.Denials.Others() > 0, "key", " denied")
	add(t.Near, blocks, false, "block", blocked)
	add(t.Near, len(all), false, "override", "")
	return text
}

// coverage says how much of the keys is followed, if that is not all, and what cannot be read.
func (m *model) coverage() string {
	f := m.feed
	c := &f.Coverage
	switch {
	case f.Problem != nil:
		return ""
	case f.Denials.Problem != nil:
		return "who is denied cannot be read: " + live.OneLine(f.Denials.Problem)
	case f.Overrides.Problem != nil:
		return "overrides cannot be read, and are not shown: " + live.OneLine(f.Overrides.Problem)
	case f.ScanError != nil:
		return "not all keys could be scanned: " + live.OneLine(f.ScanError)
	case c.Full:
		return fmt.Sprintf("%s of about %s followed, closest to their limit; all scanned every %s",
			output.Thousands(int64(len(f.Rows))), output.Thousands(c.Matched),
			output.Duration((c.Took + c.Rest() + time.Second - 1).Truncate(time.Second)))
	case f.IsScanning() && c.Total > 0:
		return fmt.Sprintf("looking for keys: %s of %s scanned", output.Thousands(c.Looked), output.Thousands(c.Total))
	}
	return ""
}
