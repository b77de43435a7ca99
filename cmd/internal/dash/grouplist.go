package dash

import (
	"cmp"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// groupList is the screen that lists groups of keys.
type groupList struct {
	by          grouping
	groups      []*group
	cursor, top int
}

// group is rows that have something in common.
type group struct {
	by      *grouping
	name    string
	keys    int
	atLimit int
	rate    float64
	closest *row // to its limit
}

// grouping is a way to make groups: by limit, which is the zero grouping, or by an
// attribute.
type grouping struct{ attribute string }

// title is the header of the groups' names.
func (g *grouping) title() string {
	if g.attribute == "" {
		return "LIMIT"
	}
	return g.attribute
}

// of returns the name of the row's group, "" if it is in none.
func (g *grouping) of(r *row) string {
	if g.attribute == "" {
		return r.limitName()
	}
	if r.parts != nil {
		for _, attribute := range r.parts.Attributes {
			if attribute.Name == g.attribute {
				return attribute.Value
			}
		}
	}
	return ""
}

// arrange makes the groups of the rows in the list of keys.
func (l *groupList) arrange(m *model) {
	byName := map[string]*group{}
	l.groups = l.groups[:0]
	for _, r := range m.keys.rows {
		if !r.inUse {
			continue
		}
		name := l.by.of(r)
		g := byName[name]
		if g == nil {
			by := l.by
			g = &group{by: &by, name: name, closest: r}
			byName[name] = g
			l.groups = append(l.groups, g)
		}
		g.keys++
		g.rate += r.rate()
		if r.isAtLimit() {
			g.atLimit++
		}
		if byCloseness.compare(r, g.closest) < 0 {
			g.closest = r
		}
	}
	slices.SortFunc(l.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.atLimit, a.atLimit), byCloseness.compare(a.closest, b.closest), cmp.Compare(a.name, b.name))
	})
	l.move(m, 0)
}

func (l *groupList) move(m *model, by int) {
	l.cursor = max(0, min(l.cursor+by, len(l.groups)-1))
	l.top = scrolled(l.top, l.cursor, len(l.groups), m.listHeight())
}

// enter lists the keys of the group under the cursor.
func (l *groupList) enter(m *model) tea.Cmd {
	if l.cursor < len(l.groups) {
		m.keys.within = l.groups[l.cursor]
		m.show(&m.keys)
		m.keys.moveTo(m, 0, false)
		m.arrange()
	}
	return nil
}

// click selects a group. A second click opens it.
func (l *groupList) click(m *model, _, line int) tea.Cmd {
	i := l.top + line - 1
	switch {
	case line < 1 || line > m.listHeight() || i >= len(l.groups):
	case i == l.cursor:
		return l.enter(m)
	default:
		l.cursor = i
	}
	return nil
}

func (l *groupList) hints(*model) string {
	return "enter keys  g by the next attribute  / filter  esc back"
}

// nextGrouping goes from the keys to their groups by limit, then by one attribute after
// the other, and then back to the keys.
func (m *model) nextGrouping() tea.Cmd {
	if m.screen == &m.keys {
		m.keys.within = nil
		m.groups = groupList{}
		m.back = nil
		m.show(&m.groups)
		m.arrange()
		return nil
	}
	names := append([]string{""}, m.feed.attributes()...)
	if i := slices.Index(names, m.groups.by.attribute); i >= 0 && i+1 < len(names) {
		m.groups = groupList{by: grouping{names[i+1]}}
	} else {
		m.back, m.screen = nil, &m.keys
	}
	m.arrange()
	return nil
}

// lines are the groups in sight, below their header.
func (l *groupList) lines(m *model) []line {
	name := max(12, min(40, m.width-markWidth-4*(8+gap)-14))
	wide := m.width >= 70
	closest := m.width - markWidth - name - 3*(8+gap) - gap
	cells := func(style output.Style, names ...string) line {
		cells := line{{pad(names[0], name, false), style}, {"  " + pad(names[1], 8, true), style}, {"  " + pad(names[2], 8, true), style}}
		if wide {
			cells = append(cells, span{"  " + pad(names[3], 8, true), style}, span{"  " + cut(names[4], closest), style})
		}
		return cells
	}
	indent := strings.Repeat(" ", markWidth)
	header := cells(output.Faint, strings.ToUpper(l.by.title()), "KEYS", "AT LIMIT", "/S", "CLOSEST KEY")
	lines := []line{append(plain(indent), header...)}
	if len(l.groups) == 0 {
		return append(lines, plain(indent+m.nothing()))
	}
	for i := l.top; i < min(l.top+m.listHeight(), len(l.groups)); i++ {
		g := l.groups[i]
		title := output.Printable(g.name)
		if g.name == "" {
			title = "(none)"
		}
		share := pad(percentText(g.closest), 4, true)
		drawn := cells(output.Plain, title, output.Thousands(int64(g.keys)), output.Thousands(int64(g.atLimit)), short(g.rate),
			share+" "+output.Printable(g.closest.Key.Subject))
		if g.atLimit > 0 {
			drawn[2].style = output.AtEnd
		}
		if wide {
			drawn[4].style = closeness(g.closest)
		}
		drawn = append(line{{pad(cursorMark(i == l.cursor), markWidth, false), bold}}, drawn...)
		if i == l.cursor {
			drawn = drawn.reverse(m.width)
		}
		lines = append(lines, drawn)
	}
	return lines
}
