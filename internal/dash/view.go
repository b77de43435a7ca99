package dash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// View implements tea.Model. It draws only what may have changed.
func (m *model) View() string {
	if !m.drawn {
		m.frame, m.drawn = m.draw(), true
	}
	return m.frame
}

// draw draws exactly as many lines as the terminal has, none wider than it.
func (m *model) draw() string {
	head := head{m}.lines()
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
	pane := m.paneHeight()
	if pane == 0 || height < 2*pane { // the head can be high, too
		return ui.Lines(m.screen.View(m.width, height))
	}
	lines := ui.Lines(m.screen.View(m.width, height-pane))
	for len(lines) < height-pane {
		lines = append(lines, "")
	}
	lines = append(lines[:height-pane], m.theme.Faint.Of(strings.Repeat("─", m.width)))
	return append(lines, m.detail.Summary(m.width, pane-1)...)
}

// paneHeight is how many lines the detail below the list has, 0 for none.
func (m *model) paneHeight() int {
	const least, pane = 30, 9
	if m.screen != m.list || m.list.Still || m.height < least || len(m.feed.Listed) == 0 {
		return 0
	}
	return pane
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
			return t.Faint.Of(fmt.Sprintf("… and %s; a pipe or a pattern shows them", output.Plural(more, "more row")))
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

// helpNotes are said below the keys.
func (m *model) helpNotes() []string {
	notes := []string{"DENIED/S is red while it is denied. USED is yellow from 80 %, and bold with nothing left. RETRY is when one more " +
		"unit fits, RESETS when nothing is used any more. ALLOWED is the units charged to the keys that are followed.",
		"In front of a subject: * marked, ? out of date as its server does not answer, ! a defect. ≥ is at least.",
		"A filter is part of a subject or limit, a pattern (acme*), tenant=acme, >80% or <20%; ! inverts a word."}
	if m.feed.Layouts != "" {
		notes = append(notes, "Keys are read by the layout "+output.Printable(m.feed.Layouts)+
			". Another limiter decides by them: they can be reset, and have no overrides, denials or takes here.")
	}
	if m.feed.Actions == nil {
		notes = append(notes, "The context is read-only: nothing can be changed from here.")
	}
	return notes
}

// head is what stands above the screens.
type head struct{ *model }

// lines say which store this is, what was allowed and denied in the last minute, and how many keys there are.
func (m head) lines() []string {
	lines := []string{m.title()}
	if f := m.feed; f.Problem != nil {
		since := output.Duration(f.Clock.Sub(f.Answered).Truncate(time.Second))
		lines = append(lines, m.theme.Full.Of(fmt.Sprintf("no answer for %s, retrying: %s", since, live.OneLine(f.Problem))))
	} else {
		lines = append(lines, m.minute(), m.counts())
		lines = append(lines, m.silent()...)
	}
	const enough = 16
	if m.height >= enough {
		if text := m.coverage(); text != "" {
			lines = append(lines, m.theme.Faint.Of(text))
		}
		if n := len(m.feed.Servers); n > 1 && m.height >= enough+4+n {
			for i := range m.feed.Servers {
				lines = append(lines, m.server(&m.feed.Servers[i]))
			}
		}
	}
	for i := range lines {
		lines[i] = ui.Fit(lines[i], m.width)
	}
	return lines
}

// title is the first line: the store, its context and configuration, and the clock.
func (m head) title() string {
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
	if f.Layouts != "" {
		text += t.Bold.Of("  layout " + f.Layouts)
	}
	switch n := len(f.Servers); {
	case n == 1:
		text += t.Faint.Of("  " + serverWords(&f.Servers[0]))
	case n > 1:
		text += t.Faint.Of(fmt.Sprintf("  %d masters", n))
	}
	clock, state := t.Plain.Of(f.Clock.Format(time.TimeOnly)), t.Faint.Of("every "+output.Duration(f.Refresh)+"  ")
	if f.Paused {
		state = t.Full.Of("PAUSED  ")
	}
	const between = 2
	if f.Paused || ui.Width(text)+between+ui.Width(state)+ui.Width(clock) <= m.width {
		clock = state + clock
	}
	text = ui.Fit(text, m.width-ui.Width(clock)-1)
	return ui.Pad(text, m.width-ui.Width(clock)) + clock
}

// minute is what was denied and allowed in the last minute. Red is what is denied now. What nobody counts is not 0.
func (m head) minute() string {
	t, f := m.theme, m.feed
	now, style := "", t.Plain
	d := &f.Denials
	denying := len(d.Keys) > 0 || d.Others > 0
	switch {
	case d.Problem != nil:
		now = "not known"
	case f.NotCounted && !denying && len(d.Blocks) == 0, f.Layouts != "":
		now = "not counted"
	case !d.Known:
		now = "…"
	case !denying:
		now = "0/s"
	default:
		now, style = ui.Rate(d.Total)+"/s", t.Denied
		if d.Lost || d.Others > 0 {
			now = "≥" + now
		}
	}
	denied := t.Bold.Of("DENIED ") + style.Of(now)
	if denying {
		denied = style.Of("DENIED " + now)
	}
	charged, allowed := "…", t.Bold.Of("ALLOWED ")
	if rate, known := f.Allowed.Lately(); known {
		if charged = ui.Number(rate) + "/s"; f.Coverage.Full || f.IsScanning() {
			charged = "≥" + charged
		}
	}
	allowed += t.Plain.Of(charged)
	const between, least, most = 3, 5, 60
	spark := min(most, (m.width-ui.Width(denied)-ui.Width(allowed)-between)/2-1)
	if spark < least || m.list.Still {
		return denied + strings.Repeat(" ", between) + allowed
	}
	draw := func(h *live.History, style ui.Style) string {
		values := h.Columns(f.Clock, 60, spark)
		return ui.Pad(" "+style.Of(ui.Sparks(values, ui.Greatest(values, 0))), spark+1)
	}
	return denied + draw(&d.Totals, style) + strings.Repeat(" ", between) + allowed + draw(&f.Allowed, t.Room)
}

// counts is how many keys there are, and what the server says. Where there is no room for all, the last goes first.
func (m head) counts() string {
	t, f := m.theme, m.feed
	atLimit, exact := f.AtLimit()
	about, style := "", t.Plain
	switch {
	case f.IsScanning():
		about = "≥"
	case !exact:
		about = "about "
	}
	if atLimit > 0 {
		style = t.Full
	}
	text := t.Plain.Of(m.matched()+", ") + style.Of(about+output.Thousands(atLimit)+" at the limit")
	var parts []string
	add := func(style ui.Style, text string) {
		rest := strings.TrimPrefix(text, ", ")
		parts = append(parts, text[:len(text)-len(rest)]+style.Of(rest))
	}
	if n := len(f.Denials.Keys); n > 0 {
		more := ""
		if f.Denials.Others > 0 {
			more = "≥"
		}
		add(t.Plain, ", "+more+output.Plural(n, "key")+" denied")
	}
	if f.Tally.Defective > 0 {
		add(t.Near, ", "+output.Plural(f.Tally.Defective, "defect")+" (!)")
	}
	if n := len(m.list.Marked); n > 0 {
		add(t.Accent, fmt.Sprintf(", %d marked (*)", n))
	}
	blocks := 0
	all := f.Overrides.InForce(f.Clock)
	for i := range all {
		if all[i].Effect == store.OverrideBlock {
			blocks++
		}
	}
	if len(all) > 0 {
		add(t.Near, ", "+output.Plural(len(all), "override"))
	}
	if blocks > 0 {
		add(t.Near, ", "+output.Plural(blocks, "block"))
	}
	if len(f.Denials.Blocks) > 0 {
		add(t.Near, ", blocked "+ui.Rate(f.Denials.ByBlocks())+"/s")
	}
	if s := sum(f.Servers); s != nil {
		add(t.Faint, fmt.Sprintf("  rtt %.1f ms", s.RoundTrip.Seconds()*1000))
		add(t.Faint, "  "+output.Thousands(s.OpsPerSecond)+" ops/s")
		memory := "  " + output.Bytes(s.UsedMemory)
		if s.MaxMemory > 0 {
			memory += " of " + output.Bytes(s.MaxMemory)
		}
		add(t.Faint, memory)
	}
	for _, part := range parts {
		if ui.Width(text)+ui.Width(part) > m.width {
			break
		}
		text += part
	}
	return text
}

// sum is what the servers say of themselves together, with the longest round trip, nil if none does.
func sum(all []live.Server) (sum *live.Server) {
	for i := range all {
		s := &all[i]
		if s.Problem == "" && sum == nil {
			sum = &live.Server{}
		}
		if sum != nil {
			sum.OpsPerSecond += s.OpsPerSecond
			sum.UsedMemory += s.UsedMemory
			sum.MaxMemory += s.MaxMemory
			sum.RoundTrip = max(sum.RoundTrip, s.RoundTrip)
		}
	}
	return sum
}

// silent says who does not answer, while others do.
func (m head) silent() (lines []string) {
	f := m.feed
	for _, name := range slices.Sorted(maps.Keys(f.Away)) {
		n := f.Away[name]
		lines = append(lines, m.theme.Full.Of(fmt.Sprintf("no answer from %s for %s: %s marked ? as they were then", name,
			output.Duration(f.Clock.Sub(n.Since).Truncate(time.Second)), output.Plural(n.Keys, "key"))))
	}
	if since, is := f.IsWaiting(); is {
		lines = append(lines, m.theme.Full.Of("no answer for "+output.Duration(f.Clock.Sub(since).Truncate(time.Second))+" so far"))
	}
	return lines
}

func (m head) server(s *live.Server) string {
	if s.Problem != "" {
		return m.theme.Plain.Of("  "+s.Name+"  ") + m.theme.Full.Of(s.Problem)
	}
	return m.theme.Plain.Of(fmt.Sprintf("  %-21s %s  rtt %.1f ms  %s ops/s  %s",
		s.Name, serverWords(s), s.RoundTrip.Seconds()*1000, output.Thousands(s.OpsPerSecond), output.Bytes(s.UsedMemory)))
}

func serverWords(s *live.Server) string {
	if s.Problem != "" {
		return s.Problem
	}
	return strings.TrimSpace(s.Version + " " + s.Role)
}

// matched says how many keys there are.
func (m head) matched() string {
	if m.feed.Coverage.Full {
		return "about " + output.Thousands(m.feed.Coverage.Matched) + " keys"
	}
	text := output.Thousands(m.feed.Tally.InUse) + " keys"
	if m.feed.Tally.InUse == 1 {
		text = "1 key"
	}
	if m.feed.IsScanning() {
		text = "≥" + text
	}
	return text
}

// coverage says how much of the keys is followed, if that is not all, and what cannot be read.
func (m head) coverage() string {
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
		return fmt.Sprintf("%s of about %s followed, those closest to their limit; all scanned every %s",
			output.Thousands(int64(len(f.Rows))), output.Thousands(c.Matched),
			output.Duration((c.Every() + time.Second - 1).Truncate(time.Second)))
	case f.IsScanning() && c.Total > 0:
		return m.scanned()
	case c.UnsureNoTTL > 0:
		return fmt.Sprintf("%s left out that may be of another limiter, %s without TTL; see inspect",
			output.Plural(int(c.Unsure), "key"), output.Thousands(c.UnsureNoTTL))
	case c.Unsure > 0:
		return fmt.Sprintf("%s left out that may be of another limiter; inspect and doctor name some",
			output.Plural(int(c.Unsure), "key"))
	}
	return ""
}

// scanned says how far the first scan has come, how fast it is, and when it ends.
func (m head) scanned() string {
	c := &m.feed.Coverage
	scanned := fmt.Sprintf("%s of %s scanned", output.Thousands(c.Looked), output.Thousands(c.Total))
	elapsed := m.feed.Clock.Sub(m.feed.ScanBegun)
	if elapsed < time.Second || c.Looked == 0 {
		return "looking for keys: " + scanned
	}
	rate := float64(c.Looked) / elapsed.Seconds()
	left := time.Duration(float64(max(0, c.Total-c.Looked)) / rate * float64(time.Second))
	return fmt.Sprintf("looking for keys, about %s left: %s, %s a second", output.Duration(left.Round(time.Second)), scanned,
		output.Thousands(int64(rate)))
}
