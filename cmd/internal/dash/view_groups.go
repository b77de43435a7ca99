package dash

import (
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// groupLines are the groups in sight, below their header.
func (m *model) groupLines() []line {
	name := max(12, min(40, m.width-markWidth-4*(8+gap)-14))
	wide := m.width >= 70
	worst := m.width - markWidth - name - 3*(8+gap) - gap
	cells := func(style output.Style, names ...string) line {
		l := line{{pad(names[0], name, false), style}, {"  " + pad(names[1], 8, true), style}, {"  " + pad(names[2], 8, true), style}}
		if wide {
			l = append(l, span{"  " + pad(names[3], 8, true), style}, span{"  " + cut(names[4], worst), style})
		}
		return l
	}
	lines := []line{append(plain(strings.Repeat(" ", markWidth)), cells(output.Faint, strings.ToUpper(m.by.title()), "KEYS", "AT LIMIT", "/S", "CLOSEST KEY")...)}
	if len(m.groups) == 0 {
		return append(lines, plain(strings.Repeat(" ", markWidth)+m.nothing()))
	}
	for i := m.groupTop; i < min(m.groupTop+m.listHeight(), len(m.groups)); i++ {
		g := m.groups[i]
		title := output.Printable(g.name)
		if g.name == "" {
			title = "(none)"
		}
		l := cells(output.Plain, title, output.Thousands(int64(g.keys)), output.Thousands(int64(g.atLimit)), short(g.rate),
			pad(percentText(g.worst), 4, true)+" "+output.Printable(g.worst.Key.Subject))
		if g.atLimit > 0 {
			l[2].style = output.AtEnd
		}
		if wide {
			l[4].style = closeness(g.worst)
		}
		l = append(line{{pad(cursorMark(i == m.groupCursor), markWidth, false), bold}}, l...)
		if i == m.groupCursor {
			l = l.reverse(m.width)
		}
		lines = append(lines, l)
	}
	return lines
}
