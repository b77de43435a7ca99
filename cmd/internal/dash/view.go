package dash

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// View implements tea.Model. It draws exactly as many lines as the terminal has, none
// wider than it.
func (m *model) View() string {
	lines := m.headLines()
	body := m.bodyLines()
	for len(body) < m.bodyHeight() {
		body = append(body, nil)
	}
	if m.question != nil {
		body = m.over(body, m.questionBox())
	}
	var b strings.Builder
	lines = append(append(lines, body[:m.bodyHeight()]...), m.footLine())
	for i, l := range lines[:min(len(lines), m.height)] {
		if i > 0 {
			b.WriteByte('\n')
		}
		p := painter{color: m.Color, faint: m.isAway() && i >= len(m.headLines()) && i < m.height-1 && m.question == nil}
		p.paint(&b, l.fit(m.width))
	}
	return b.String()
}

// bodyHeight is how many lines are between the head and the foot.
func (m *model) bodyHeight() int { return max(0, m.height-len(m.headLines())-1) }

// listHeight is how many rows of a list are in sight, below its header.
func (m *model) listHeight() int { return max(1, m.bodyHeight()-1) }

func (m *model) bodyLines() []line {
	switch m.screen {
	case groupsScreen:
		return m.groupLines()
	case keysScreen:
		return m.keyLines()
	}
	text := m.text()
	text = text[min(m.scroll, len(text)):]
	if height := m.bodyHeight(); len(text) > height && height > 0 {
		text = append(text[:height-1:height-1], styled(fmt.Sprintf("… %d more lines (↓)", len(text)-height+1), output.Faint))
	}
	return text
}

// text is what the detail or the help says.
func (m *model) text() []line {
	if m.screen == helpScreen {
		return m.helpLines()
	}
	return m.detailLines()
}

// over draws a box in the middle of lines.
func (m *model) over(body []line, box []line) []line {
	top := max(0, (len(body)-len(box))/2)
	for i, l := range box {
		if top+i < len(body) {
			left := strings.Repeat(" ", max(0, (m.width-l.width())/2))
			body[top+i] = append(plain(left), l...)
		}
	}
	return body
}

// boxed puts lines into a frame.
func boxed(lines []line, columns int) []line {
	widest := 0
	for _, l := range lines {
		widest = max(widest, l.width())
	}
	inner := max(1, min(widest, columns-4))
	border := lipgloss.RoundedBorder()
	box := []line{plain(border.TopLeft + strings.Repeat(border.Top, inner+2) + border.TopRight)}
	for _, l := range lines {
		l = l.fit(inner)
		inside := append(plain(border.Left+" "), l...)
		box = append(box, append(inside, span{strings.Repeat(" ", inner-l.width()) + " " + border.Right, output.Plain}))
	}
	return append(box, plain(border.BottomLeft+strings.Repeat(border.Bottom, inner+2)+border.BottomRight))
}

func (m *model) questionBox() []line {
	q := m.question
	answers := []line{{{"y", bold}, {" yes   ", output.Plain}, {"any other key", bold}, {" no", output.Plain}}}
	if q.typed != "" {
		answers = []line{styled(q.typed+" is protected. Type its name to go on:", output.Near), {{m.input.Value(), bold}, {"▏", output.Plain}}}
	}
	const frame = 2 // the lines of the border
	room := m.bodyHeight() - frame - 1 - len(answers)
	lines := []line{styled(q.title+"?", bold)}
	if room >= len(q.lines)+2 {
		lines, answers = append(lines, nil), append([]line{nil}, answers...)
	}
	for _, text := range q.lines[:max(0, min(len(q.lines), room))] {
		lines = append(lines, plain(text))
	}
	return boxed(append(lines, answers...), m.width)
}

// footLine is what is asked or said, else the keys one needs most.
func (m *model) footLine() line {
	switch {
	case m.question != nil || m.still:
		return nil
	case m.filtering:
		l := line{{"filter: ", bold}, {m.input.Value(), output.Plain}, {"▏", output.Plain}}
		if m.note.bad {
			l = append(l, span{"  " + m.note.text, output.AtEnd})
		}
		return l
	case m.note.bad:
		return styled(m.note.text, output.AtEnd)
	case m.note.text != "":
		return styled(m.note.text, bold)
	case m.acting:
		return styled("working…", bold)
	}
	hints := "enter detail  / filter  s sort  g groups"
	switch m.screen {
	case detailScreen, helpScreen:
		hints = "esc back"
	case groupsScreen:
		hints = "enter keys  g by the next attribute  / filter  esc back"
	}
	if m.Actions != nil && m.Play == nil && m.screen != helpScreen && m.screen != groupsScreen {
		hints += "  r reset"
	}
	return styled("? help  q quit  "+hints, output.Faint)
}

// headLines say where this is and how it is: on one line where the screen is low, with
// a line for each master of a Cluster where there is room.
func (m *model) headLines() []line {
	first := line{{"limitctl ", bold}}
	if m.Context != "" {
		style := bold
		if m.Protected {
			style = output.Near
		}
		first = append(first, span{m.Context + " ", style})
	}
	first = append(first, span{m.Where, output.Plain})
	if len(m.servers) == 1 {
		first = append(first, span{"  " + m.servers[0].words(), output.Plain})
	} else if len(m.servers) > 1 {
		first = append(first, span{fmt.Sprintf("  %d masters", len(m.servers)), output.Plain})
	}
	lines := []line{m.withClock(first)}
	if m.isAway() {
		lines = append(lines, styled(fmt.Sprintf("no answer for %s, retrying: %s", output.Duration(m.now.Sub(m.answered).Truncate(time.Second)), oneLine(m.problem)), output.AtEnd))
	} else {
		lines = append(lines, m.vitals())
	}
	if m.height >= 16 {
		if coverage := m.coverageText(); coverage != "" {
			lines = append(lines, styled(coverage, output.Faint))
		}
		if len(m.servers) > 1 && m.height >= 20+len(m.servers) {
			for i := range m.servers {
				lines = append(lines, m.serverLine(&m.servers[i]))
			}
		}
	}
	return lines
}

// withClock puts the clock, and what else is to be seen at all times, to the right.
func (m *model) withClock(l line) line {
	clock := m.now.Format(time.TimeOnly)
	state := span{"every " + output.Duration(m.Refresh), output.Faint}
	if m.paused {
		state = span{"PAUSED", output.Near}
	} else if m.Play != nil {
		state = span{"played", output.Near}
	}
	right := line{state, {"  " + clock, output.Plain}}
	if m.width < 60 && !m.paused {
		right = plain(clock)
	}
	l = l.fit(m.width - right.width() - 1)
	return append(append(l, span{strings.Repeat(" ", max(1, m.width-l.width()-right.width())), output.Plain}), right...)
}

func (s *Server) words() string {
	if s.Problem != "" {
		return s.Problem
	}
	return strings.TrimSpace(s.Version + " " + s.Role)
}

// vitals is the line of numbers.
func (m *model) vitals() line {
	atLimit, exact := m.atLimit()
	style := output.Calm
	if atLimit > 0 {
		style = output.AtEnd
	}
	about := ""
	if !exact {
		about = "about "
	}
	l := line{{m.matchedText() + ", ", output.Plain}, {about + output.Thousands(atLimit) + " at the limit", style}}
	if len(m.servers) == 0 {
		return l
	}
	var ops, memory, most int64
	told := false
	for i := range m.servers {
		told = told || m.servers[i].Problem == ""
		ops, memory, most = ops+m.servers[i].OpsPerSecond, memory+m.servers[i].UsedMemory, most+m.servers[i].MaxMemory
	}
	values := m.roundTrip.columns(m.now, 20, 20)
	if m.width < 100 {
		values = m.roundTrip.columns(m.now, 8, 8)
	}
	greatest := float32(1)
	for _, value := range values {
		if value > greatest {
			greatest = value
		}
	}
	l = append(l, span{"  rtt " + roundTripText(roundTripOf(m.servers)) + " ", output.Plain})
	if m.width >= 70 {
		l = append(l, sparks(values, greatest, func(float32) output.Style { return output.Plain })...)
	}
	if !told {
		return l
	}
	l = append(l, span{"  " + output.Thousands(ops) + " ops/s", output.Plain})
	text := "  " + output.Bytes(memory)
	if most > 0 {
		text += " of " + output.Bytes(most)
	}
	return append(l, span{text, output.Plain})
}

func roundTripText(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func (m *model) serverLine(s *Server) line {
	if s.Problem != "" {
		return line{{"  " + s.Name + "  ", output.Plain}, {s.Problem, output.AtEnd}}
	}
	return plain(fmt.Sprintf("  %-21s %s  rtt %s  %s ops/s  %s", s.Name, s.words(), roundTripText(s.RoundTrip), output.Thousands(s.OpsPerSecond), output.Bytes(s.UsedMemory)))
}

// matchedText says how many keys there are.
func (m *model) matchedText() string {
	if m.coverage.Full {
		return "about " + output.Thousands(m.coverage.Matched) + " keys"
	}
	n := 0
	for _, r := range m.rows {
		if r.inUse && m.selects(r) {
			n++
		}
	}
	text := output.Thousands(int64(n)) + " keys"
	if n == 1 {
		text = "1 key"
	}
	if m.coverage.Passes == 0 && m.Query.Keys == nil && m.Play == nil {
		text += " so far"
	}
	return text
}

// coverageText says how much of the keys is followed, if that is not all.
func (m *model) coverageText() string {
	c := &m.coverage
	switch {
	case m.isAway():
		return ""
	case m.scanError != nil:
		return "not all keys could be looked for: " + oneLine(m.scanError)
	case c.Full:
		return fmt.Sprintf("%s of about %s followed, those closest to their limit; all scanned every %s",
			output.Thousands(int64(len(m.rows))), output.Thousands(c.Matched), output.Duration(roundUp(max(c.Took, passEvery), time.Second)))
	case c.Passes == 0 && c.Total > 0 && m.Query.Keys == nil:
		return fmt.Sprintf("looking for keys: %s of %s looked at", output.Thousands(c.Looked), output.Thousands(c.Total))
	}
	return ""
}
