package dash

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"
)

// keyList is the screen that lists keys.
type keyList struct {
	order    order
	reversed bool
	within   *group // only the keys of this group are listed; nil for all
	rows     []*row // those that are listed, in order

	cursor, top int
	selected    ID
	moved       bool // the cursor stays with the selected key
	marked      map[ID]bool

	needs   needs // columns
	changed bool  // by a key or a click, so the columns are fitted anew
}

// arrange lists the rows that are to be shown. Rows that are equal in the order keep
// their places.
func (l *keyList) arrange(m *model) {
	l.rows = l.rows[:0]
	for _, r := range m.feed.rows {
		if l.shows(m, r) {
			r.override = m.force().override(r.Key)
			l.rows = append(l.rows, r)
		}
	}
	slices.SortFunc(l.rows, func(a, b *row) int {
		if c := l.order.compare(a, b); c != 0 {
			if l.reversed {
				return -c
			}
			return c
		}
		return compareIDs(a.id(), b.id())
	})
}

// shows reports whether a row is among those that were asked for.
func (l *keyList) shows(m *model, r *row) bool {
	if !m.selects(r) {
		return false
	}
	if r.updated.IsZero() && m.Query.Keys != nil { // it was named, and not found yet
		return false
	}
	return (l.within == nil || l.within.by.of(r) == l.within.name) && m.filter.matches(r)
}

// follow keeps the cursor with its key, and in sight.
func (l *keyList) follow(m *model) {
	if l.moved {
		if i := slices.IndexFunc(l.rows, func(r *row) bool { return r.id() == l.selected }); i >= 0 {
			l.cursor = i
		}
	}
	l.moveTo(m, l.cursor, l.moved)
}

// moveTo puts the cursor on a row. If moved is true, it stays with that row's key.
func (l *keyList) moveTo(m *model, i int, moved bool) {
	l.cursor = max(0, min(i, len(l.rows)-1))
	l.moved = moved
	if r := l.current(); r != nil {
		l.selected = r.id()
	}
	l.top = scrolled(l.top, l.cursor, len(l.rows), m.listHeight())
	l.measure(m)
}

// scrolled returns the first row of a list that is in sight, so that the cursor is in
// sight and the list moves no further than it must.
func scrolled(top, cursor, rows, height int) int {
	height = max(1, height)
	top = max(min(top, cursor), cursor-height+1)
	return max(0, min(top, rows-height))
}

// current returns the row under the cursor, or nil.
func (l *keyList) current() *row {
	if l.cursor < len(l.rows) {
		return l.rows[l.cursor]
	}
	return nil
}

func (l *keyList) move(m *model, by int) { l.moveTo(m, l.cursor+by, true) }

// enter shows everything about the key under the cursor.
func (l *keyList) enter(m *model) tea.Cmd {
	r := l.current()
	if r == nil {
		return nil
	}
	l.moveTo(m, l.cursor, true)
	m.detail = detailView{key: r.id()}
	m.show(&m.detail)
	return m.look()
}

// click sorts by the column of the header, or selects a row. A second click opens it.
func (l *keyList) click(m *model, x, line int) tea.Cmd {
	if line == 0 {
		for _, c := range m.fit() {
			if x >= c.at && x < c.at+c.width && c.order >= 0 {
				if c.order == l.order {
					return m.turnOrder()
				}
				return m.sortBy(c.order)
			}
		}
		return nil
	}
	i := l.top + line - 1
	switch {
	case line < 1 || line > m.listHeight() || i >= len(l.rows):
		return nil
	case i == l.cursor && l.moved:
		return l.enter(m)
	}
	l.moveTo(m, i, true)
	return nil
}

func (l *keyList) hints(m *model) string {
	hints := "enter detail  / filter  s sort  g groups"
	if m.mayChange() {
		if hints += "  r reset"; !m.isOthers() {
			hints += "  o override"
		}
	}
	return hints
}

func (m *model) nextOrder() tea.Cmd { return m.sortBy((m.keys.order + 1) % orders) }

func (m *model) turnOrder() tea.Cmd {
	m.keys.reversed = !m.keys.reversed
	m.arrange()
	return nil
}

func (m *model) sortBy(o order) tea.Cmd {
	m.keys.order, m.keys.reversed = o, false
	m.arrange()
	m.say("sorted by " + o.String())
	return nil
}

// mark marks the key under the cursor or takes its mark away, and goes to the next one.
func (m *model) mark() tea.Cmd {
	l := &m.keys
	if r := l.current(); r != nil {
		if l.marked[r.id()] {
			delete(l.marked, r.id())
		} else {
			l.marked[r.id()] = true
		}
		l.move(m, 1)
	}
	return nil
}
