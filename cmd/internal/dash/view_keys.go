package dash

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// column is one of a list of rows.
type column struct {
	title string
	order order // that a click on the header sorts by; -1 for none
	right bool
	// least is the width it needs, and most what it can make use of.
	least, most int
	drops       int // the greatest goes first where there is no room; 0 stays
	cell        func(m *model, r *row, width int) line

	width, at int // once fitted
}

const gap = 2

// columns are those of the list of keys.
func columns() []column {
	text := func(get func(r *row) string) func(*model, *row, int) line {
		return func(_ *model, r *row, _ int) line { return plain(get(r)) }
	}
	return []column{
		{title: "SUBJECT", order: bySubject, least: 16, most: 60,
			cell: text(func(r *row) string { return output.Printable(r.Key.Subject) })},
		{title: "LIMIT", order: byLimit, least: 12, most: 30, drops: 3, cell: text(func(r *row) string {
			return output.Printable(r.limitName())
		})},
		{title: "ALGORITHM", order: -1, least: 15, most: 15, drops: 9, cell: text(func(r *row) string {
			if !r.known() {
				return ""
			}
			return r.Limit.Algorithm.String()
		})},
		{title: "USED", order: byCloseness, least: 6, most: 30, cell: func(_ *model, r *row, width int) line {
			if !r.known() {
				return nil
			}
			return styled(output.Bar(r.Used, r.Limit.Capacity(), width), closeness(r))
		}},
		{title: "OF LIMIT", order: byUsed, right: true, least: 11, most: 15, cell: func(_ *model, r *row, width int) line {
			if !r.known() {
				return plain("-")
			}
			text := output.Thousands(r.Used) + "/" + output.Thousands(r.Limit.Capacity())
			if len(text) > width {
				text = short(float64(r.Used)) + "/" + short(float64(r.Limit.Capacity()))
			}
			return styled(text, closeness(r))
		}},
		{title: "LEFT", order: byRemaining, right: true, least: 5, most: 9, drops: 5, cell: func(_ *model, r *row, width int) line {
			text := output.Thousands(r.Remaining)
			if len(text) > width {
				text = short(float64(r.Remaining))
			}
			return plain(text)
		}},
		{title: "/S", order: byRate, right: true, least: 5, most: 6, drops: 2, cell: text(func(r *row) string { return short(r.rate()) })},
		{title: "RESETS", order: byReset, right: true, least: 7, most: 9, drops: 1, cell: func(_ *model, r *row, _ int) line {
			switch {
			case r.inUse && r.TTL < 0:
				return styled("no TTL", output.Near)
			case r.inUse && r.atLimit():
				return styled("+"+seconds(r.RetryAfter), output.AtEnd)
			}
			return plain(seconds(r.ResetAfter))
		}},
		{title: "LAST MIN", order: -1, least: 8, most: 60, drops: 4, cell: func(m *model, r *row, width int) line {
			return sparks(r.shares.columns(m.now, 60, width), 1, shareStyle)
		}},
	}
}

// markWidth is the column of the cursor and of marks.
const markWidth = 3

// fit chooses the columns that there is room for, and their widths.
func (m *model) fit() []column {
	all := columns()
	room := m.width - markWidth
	if m.width < 60 {
		for i := range all {
			all[i].least = min(all[i].least, 9)
		}
	}
	for {
		needs, drop := -gap, -1
		for i := range all {
			needs += all[i].least + gap
			if all[i].drops > 0 && (drop < 0 || all[i].drops > all[drop].drops) {
				drop = i
			}
		}
		if needs <= room || drop < 0 {
			room -= needs
			break
		}
		all = append(all[:drop:drop], all[drop+1:]...)
	}
	for i := range all {
		all[i].width = all[i].least
	}
	for gave := true; gave && room > 0; { // what is left goes round
		gave = false
		for i := range all {
			step := 1
			if i == 0 {
				step = 3 // the subject is what is cut most
			}
			if step = min(step, room, all[i].most-all[i].width); step > 0 {
				all[i].width += step
				room -= step
				gave = true
			}
		}
	}
	at := markWidth
	for i := range all {
		all[i].at = at
		at += all[i].width + gap
	}
	return all
}

// lines are the header and the rows in sight.
func (l *keyList) lines(m *model) []line {
	fitted := m.fit()
	header := plain(strings.Repeat(" ", markWidth))
	for i, c := range fitted {
		title, style := c.title, output.Faint
		if c.order == l.order {
			arrow := "▾"
			if l.reversed {
				arrow = "▴"
			}
			title, style = c.title+arrow, bold
		}
		header = append(header, span{pad(title, c.width, c.right), style})
		if i < len(fitted)-1 {
			header = append(header, span{strings.Repeat(" ", gap), output.Plain})
		}
	}
	lines := []line{header}
	if len(l.rows) == 0 {
		return append(lines, plain(strings.Repeat(" ", markWidth)+m.nothing()))
	}
	for i := l.top; i < min(l.top+m.listHeight(), len(l.rows)); i++ {
		lines = append(lines, m.keyLine(l.rows[i], fitted, i == l.cursor && !m.still))
	}
	return lines
}

func (m *model) keyLine(r *row, fitted []column, selected bool) line {
	mark := " "
	if m.keys.marked[r.Key] {
		mark = "●"
	}
	l := line{{cursorMark(selected) + mark + " ", bold}}
	for i, c := range fitted {
		cell := c.cell(m, r, c.width).fit(c.width)
		space := span{strings.Repeat(" ", c.width-cell.width()), output.Plain}
		if c.right {
			l = append(append(l, space), cell...)
		} else {
			l = append(append(l, cell...), space)
		}
		if i < len(fitted)-1 {
			l = append(l, span{strings.Repeat(" ", gap), output.Plain})
		}
	}
	if !r.inUse {
		for i := range l {
			l[i].style = output.Faint
		}
	}
	if selected {
		return l.reverse(m.width)
	}
	return l
}

func cursorMark(selected bool) string {
	if selected {
		return "▸"
	}
	return " "
}

// nothing says why a list is empty.
func (m *model) nothing() string {
	switch {
	case m.filter.text != "" && len(m.feed.rows) > 0:
		return fmt.Sprintf("none of the %s matches %s; esc ends the filter", output.Plural(len(m.feed.rows), "key"), m.filter.text)
	case m.feed.coverage.Passes == 0 && m.Query.Keys == nil && m.Play == nil:
		return "looking for keys…"
	}
	return "nothing in use matches " + m.Selection
}
