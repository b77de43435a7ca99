package dash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
)

// View implements tea.Model. It draws exactly as many lines as the terminal has, none
// wider than it.
func (m *model) View() string {
	lines := m.headLines()
	body := m.screen.lines(m)
	for len(body) < m.bodyHeight() {
		body = append(body, nil)
	}
	switch {
	case m.changes.question != nil:
		body = m.over(body, m.changes.question.box(m.bodyHeight(), m.width))
	case m.changes.form != nil:
		body = m.over(body, m.changes.form.box(m.bodyHeight(), m.width))
	}
	var b strings.Builder
	lines = append(append(lines, body[:m.bodyHeight()]...), m.footLine())
	for i, l := range lines[:min(len(lines), m.height)] {
		if i > 0 {
			b.WriteByte('\n')
		}
		inBody := i >= len(m.headLines()) && i < m.height-1
		p := painter{color: m.Color, faint: m.isAway() && inBody && !m.isAsking()}
		p.paint(&b, l.fit(m.width))
	}
	return b.String()
}

// isAsking reports whether something is to be answered or filled in.
func (m *model) isAsking() bool { return m.changes.question != nil || m.changes.form != nil }

// bodyHeight is how many lines are between the head and the foot.
func (m *model) bodyHeight() int { return max(0, m.height-len(m.headLines())-1) }

// listHeight is how many rows of a list are in sight, below its header.
func (m *model) listHeight() int { return max(1, m.bodyHeight()-1) }

// textFrom returns what is in sight of a text that is scrolled by that many lines.
func (m *model) textFrom(scroll int, text []line) []line {
	text = text[min(scroll, len(text)):]
	if height := m.bodyHeight(); len(text) > height && height > 0 {
		more := fmt.Sprintf("… %d more lines (↓)", len(text)-height+1)
		text = append(text[:height-1:height-1], styled(more, output.Faint))
	}
	return text
}

// scrollBy returns where a text is scrolled to.
func (m *model) scrollBy(scroll, by int, text []line) int {
	return max(0, min(scroll+by, len(text)-m.bodyHeight()))
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

// footLine is what is asked or said, or else the keys that are needed most.
func (m *model) footLine() line {
	switch {
	case m.still:
		if more := len(m.keys.rows) - m.listHeight(); more > 0 {
			return styled(fmt.Sprintf("… and %s; a pipe or a pattern shows them", output.Plural(more, "more row")), output.Faint)
		}
		return nil
	case m.isAsking():
		return nil
	case m.filter.editing:
		l := line{{"filter: ", bold}, {m.filter.input.Value(), output.Plain}, {"▏", output.Plain}}
		if m.note.bad {
			l = append(l, span{"  " + m.note.text, output.AtEnd})
		}
		return l
	case m.note.bad:
		return styled(m.note.text, output.AtEnd)
	case m.note.text != "":
		return styled(m.note.text, bold)
	case m.changes.acting:
		return styled("working…", bold)
	}
	return styled("? help  q quit  "+m.screen.hints(m), output.Faint)
}

// headLines say which store this is and how it is. A high screen has a line for each
// master of a Cluster, too.
func (m *model) headLines() []line {
	first := line{{"limitctl ", bold}}
	if m.Context != "" {
		style := bold
		if m.Protected {
			style = output.AtEnd
		}
		first = append(first, span{m.Context + " ", style})
	}
	if m.Protected {
		first = append(first, span{"PROTECTED", reversed + ";" + output.AtEnd}, span{" ", output.Plain})
	}
	if m.Actions == nil && !m.still {
		first = append(first, span{"read-only", bold}, span{" ", output.Plain})
	}
	first = append(first, span{m.Where, output.Plain})
	if m.Config != nil && m.Config() != "" {
		first = append(first, span{"  by " + m.Config(), output.Plain})
	}
	if m.isOthers() {
		first = append(first, span{"  layout " + m.Layouts, bold})
	}
	if len(m.feed.servers) == 1 {
		first = append(first, span{"  " + serverWords(&m.feed.servers[0]), output.Plain})
	} else if len(m.feed.servers) > 1 {
		first = append(first, span{fmt.Sprintf("  %d masters", len(m.feed.servers)), output.Plain})
	}
	lines := []line{m.withClock(first)}
	if m.isAway() {
		since := output.Duration(m.now.Sub(m.feed.answered).Truncate(time.Second))
		text := fmt.Sprintf("no answer for %s, retrying: %s", since, oneLine(m.feed.problem))
		lines = append(lines, styled(text, output.AtEnd))
	} else {
		lines = append(lines, m.vitals())
		lines = append(lines, m.awayLines()...)
	}
	if m.height >= 16 {
		if coverage := m.coverageText(); coverage != "" {
			lines = append(lines, styled(coverage, output.Faint))
		}
		if len(m.feed.servers) > 1 && m.height >= 20+len(m.feed.servers) {
			for i := range m.feed.servers {
				lines = append(lines, m.serverLine(&m.feed.servers[i]))
			}
		}
	}
	for i := range m.keys.inCommon(m) {
		lines = append(lines, offenderLine(&m.keys.offenders[i], m.feed.denials.Total, i == m.keys.common-1, m.width))
	}
	return append(lines, m.filterLines()...)
}

// offenderLine says what denied keys have in common.
func offenderLine(o *offender, total float64, selected bool, columns int) line {
	share := ""
	if total > 0 {
		share = fmt.Sprintf(", %.0f%% of all", min(100, 100*o.Rate/total))
	}
	l := line{{cursorMark(selected) + " ", bold}, {o.By.String() + " ", output.Faint}, {output.Printable(o.Name), bold},
		{"  " + deniedSign + " " + shortNumber(o.Rate) + "/s", denying},
		{" by " + output.Plural(o.Keys, "key") + share, output.Plain}}
	if selected {
		return l.reverse(columns)
	}
	return l
}

// awayLines say who does not answer, while others do.
func (m *model) awayLines() (lines []line) {
	for _, name := range slices.Sorted(maps.Keys(m.feed.away)) {
		n := m.feed.away[name]
		text := fmt.Sprintf("no answer from %s for %s: %s marked ? as they were then", name,
			output.Duration(m.now.Sub(n.since).Truncate(time.Second)), output.Plural(n.keys, "key"))
		lines = append(lines, styled(text, output.AtEnd))
	}
	if m.isWaiting() {
		waited := output.Duration(m.now.Sub(m.feed.lookedAt).Truncate(time.Second))
		lines = append(lines, styled("no answer for "+waited+" so far", output.AtEnd))
	}
	return lines
}

// withClock puts the clock and the state of the refresh to the right of a line, the state
// where it takes nothing away from the line.
func (m *model) withClock(l line) line {
	right := line{{m.now.Format(time.TimeOnly), output.Plain}}
	state := span{"every " + output.Duration(m.Refresh), output.Faint}
	if m.paused {
		state = span{"PAUSED", output.Near}
	}
	const between = 2
	if both := append(line{state, plain("  ")[0]}, right...); m.paused || l.width()+between+both.width() <= m.width {
		right = both
	}
	l = l.fit(m.width - right.width() - 1)
	return append(append(l, span{strings.Repeat(" ", max(1, m.width-l.width()-right.width())), output.Plain}), right...)
}

// vitals is the line of numbers. Where there is no room for all, the last of these go first:
// of how many keys requests are denied, what the servers say, and how the round trip was.
func (m *model) vitals() line {
	atLimit, exact := m.atLimit()
	style := output.Room
	if atLimit > 0 {
		style = full
	}
	about := ""
	switch {
	case m.isScanning():
		about = "≥"
	case !exact:
		about = "about "
	}
	l := line{{m.matchedText() + ", ", output.Plain}, {about + output.Thousands(atLimit) + " at the limit", style}}
	if t := &m.feed.tally; t.defective > 0 {
		l = append(l, span{", ", output.Plain}, span{output.Plural(t.defective, "defect"), output.Near})
		if t.stuck > 0 {
			l[len(l)-1].style = output.AtEnd
		}
	}
	denied, of, blocked := m.deniedParts()
	var trip, ops, memory line
	if len(m.feed.servers) > 0 {
		trip = line{{"  rtt " + roundTripText(roundTripOf(m.feed.servers)), output.Plain}}
	}
	if sum := m.sums(); sum != nil {
		ops = plain("  " + output.Thousands(sum.OpsPerSecond) + " ops/s")
		memory = plain("  " + output.Bytes(sum.UsedMemory))
		if sum.MaxMemory > 0 {
			memory[0].text += " of " + output.Bytes(sum.MaxMemory)
		}
	}
	var inForce line
	if text := m.inForceText(); text != "" {
		inForce = line{{", ", output.Plain}, {text, output.Near}}
	}
	parts := []*line{&l, &denied, &blocked, &of, &inForce, &trip, &ops, &memory}
	room := m.width
	for i, part := range parts {
		if room -= part.width(); room < 0 && i > 0 {
			*part = nil
		}
	}
	for _, columns := range []int{20, 8} {
		if room > columns && trip != nil {
			trip = append(append(trip, span{" ", output.Plain}), m.roundTrips(columns)...)
			break
		}
	}
	return slices.Concat(l, denied, of, blocked, inForce, trip, ops, memory)
}

// deniedParts say how much is denied in all by limits, and of how many keys, and how much by blocks.
func (m *model) deniedParts() (denied, of, blocked line) {
	d := &m.feed.denials
	if d.Problem != nil {
		return line{{", denials ", output.Plain}, {"not known", output.Near}}, nil, nil
	}
	all, keys, byBlocks := d.Summary()
	if m.NotCounted && d.Total == 0 && len(d.Blocks) == 0 {
		return line{{", denials not counted", output.Plain}}, nil, nil
	}
	if all == "" {
		return nil, nil, nil
	}
	style := output.Room
	if len(d.Keys) > 0 || d.Others > 0 {
		style = denying
	}
	if byBlocks != "" {
		blocked = line{{", ", output.Plain}, {byBlocks, output.Near}}
	}
	return line{{", ", output.Plain}, {all, style}}, plain(keys), blocked
}

// sums are what the servers say of themselves together, nil if none does.
func (m *model) sums() (sum *Server) {
	for i := range m.feed.servers {
		s := &m.feed.servers[i]
		if s.Problem == "" && sum == nil {
			sum = &Server{}
		}
		if sum != nil {
			sum.OpsPerSecond += s.OpsPerSecond
			sum.UsedMemory += s.UsedMemory
			sum.MaxMemory += s.MaxMemory
		}
	}
	return sum
}

// roundTrips draws how long round trips took in the last seconds.
func (m *model) roundTrips(seconds int) line {
	values := m.feed.roundTrip.Columns(m.now, seconds, seconds)
	return sparks(values, greatest(values, 1), func(float32) output.Style { return output.Plain })
}

func roundTripText(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func (m *model) serverLine(s *Server) line {
	if s.Problem != "" {
		return line{{"  " + s.Name + "  ", output.Plain}, {s.Problem, output.AtEnd}}
	}
	return plain(fmt.Sprintf("  %-21s %s  rtt %s  %s ops/s  %s",
		s.Name, serverWords(s), roundTripText(s.RoundTrip), output.Thousands(s.OpsPerSecond), output.Bytes(s.UsedMemory)))
}

// matchedText says how many keys there are.
func (m *model) matchedText() string {
	if m.feed.coverage.Full {
		return "about " + output.Thousands(m.feed.coverage.Matched) + " keys"
	}
	n := m.feed.tally.inUse
	text := output.Thousands(n) + " keys"
	if n == 1 {
		text = "1 key"
	}
	if m.isScanning() {
		text = "≥" + text
	}
	return text
}

// coverageText says how much of the keys is followed, if that is not all.
func (m *model) coverageText() string {
	c := &m.feed.coverage
	switch {
	case m.isAway():
		return ""
	case m.feed.denials.Problem != nil:
		return "who is denied cannot be read: " + oneLine(m.feed.denials.Problem)
	case m.feed.overrides.problem != nil:
		return "overrides cannot be read, and are not shown: " + oneLine(m.feed.overrides.problem)
	case m.feed.scanError != nil:
		return "not all keys could be scanned: " + oneLine(m.feed.scanError)
	case c.Full:
		return fmt.Sprintf("%s of about %s followed, those closest to their limit; all scanned every %s",
			output.Thousands(int64(len(m.feed.rows))), output.Thousands(c.Matched), output.Duration(roundUp(
				max((1+restsFor)*c.Took, passEvery), time.Second)))
	case c.Passes == 0 && c.Total > 0 && m.Query.Keys == nil:
		return m.scanText()
	case c.UnsureNoTTL > 0:
		return fmt.Sprintf("%s left out that may be of another limiter, %s without TTL; see inspect",
			output.Plural(int(c.Unsure), "key"), output.Thousands(c.UnsureNoTTL))
	case c.Unsure > 0:
		return fmt.Sprintf("%s left out that may be of another limiter; inspect and doctor name some",
			output.Plural(int(c.Unsure), "key"))
	}
	return ""
}

// isScanning reports whether not all keys were looked at yet, so that counts are the least that there are.
func (m *model) isScanning() bool {
	return m.feed.coverage.Passes == 0 && m.Query.Keys == nil
}

// scanText says how far the first scan has come, how fast it is, and when it ends.
func (m *model) scanText() string {
	c := &m.feed.coverage
	scanned := fmt.Sprintf("%s of %s scanned", output.Thousands(c.Looked), output.Thousands(c.Total))
	elapsed := m.now.Sub(m.feed.scanBegun)
	if elapsed < time.Second || c.Looked == 0 {
		return "looking for keys: " + scanned
	}
	rate := float64(c.Looked) / elapsed.Seconds()
	left := time.Duration(float64(max(0, c.Total-c.Looked)) / rate * float64(time.Second))
	return fmt.Sprintf("looking for keys, about %s left: %s, %s a second", output.Duration(left.Round(time.Second)), scanned,
		output.Thousands(int64(rate)))
}

// roundTripOf returns the longest round trip to any of the servers.
func roundTripOf(servers []Server) (longest time.Duration) {
	for i := range servers {
		longest = max(longest, servers[i].RoundTrip)
	}
	return longest
}

func serverWords(s *Server) string {
	if s.Problem != "" {
		return s.Problem
	}
	return strings.TrimSpace(s.Version + " " + s.Role)
}
