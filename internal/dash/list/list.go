// Package list is the dashboard's screen of all keys: what denied keys have in common, the filter, and a row for each key.
package list

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
)

// Model is the screen.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	note  *ui.Note
	// Still: one frame is written, and nobody presses keys.
	Still bool
	// Open shows everything about the key under the cursor.
	Open func() tea.Cmd

	// Marked are the keys that are marked.
	Marked map[live.ID]bool

	table    ui.Table
	height   int // rows in sight
	selected live.ID
	moved    bool // the cursor stays with the selected key
	cause    int  // the number of the cause that the cursor is on, from 1; 0 if it is on a row
	filter   *filter
}

// New returns the screen of a feed.
func New(feed *live.Feed, theme *ui.Theme, note *ui.Note) *Model {
	m := &Model{feed: feed, theme: theme, note: note, height: 1, Marked: map[live.ID]bool{}}
	m.filter = &filter{Model: m, input: ui.NewInput()}
	return m
}

// Bindings are the keys of the screen, the most wanted first.
func (m *Model) Bindings() []ui.Binding {
	if m.cause > 0 {
		return []ui.Binding{ui.Bind("enter", "show only these", m.enter, "enter", "l", "right")}
	}
	all := []ui.Binding{
		ui.Bind("enter", "detail", m.enter, "enter", "l", "right"),
		ui.Bind("/", "filter", m.filter.edit, "/"),
		ui.Bind("s", "sort", m.sort, "s"),
		ui.Bind("S", "reverse", m.reverse, "S"),
	}
	if m.feed.Actions != nil {
		all = append(all, ui.Bind("m", "mark", m.mark, "m"))
	}
	return all
}

// Update takes keys and the mouse. y of the mouse is a line of the screen.
func (m *Model) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		if m.filter.editing {
			return m.filter.typed(msg)
		}
		return ui.Press(m.Bindings(), msg)
	case tea.MouseMsg:
		at := m.table.Top + msg.Y - len(m.above(0)) - 1
		switch from, to := m.table.InSight(len(m.feed.Listed), m.height); {
		case at < from || at >= to:
		case at == m.table.Cursor && m.moved && m.cause == 0:
			return m.enter()
		default:
			m.cause = 0
			m.moveTo(at)
		}
	}
	return nil
}

// Typed is what is typed into the filter now. is is false if nothing is.
func (m *Model) Typed() (line string, is bool) { return m.filter.line(), m.filter.editing }

// EndFilter ends the filter, and reports whether there was one.
func (m *Model) EndFilter() bool {
	was := m.feed.Filter.Text != ""
	m.feed.Filter = live.Filter{}
	return was
}

// Current is the row under the cursor, nil if there is none.
func (m *Model) Current() *live.Row {
	if m.cause == 0 && m.table.Cursor < len(m.feed.Listed) {
		return m.feed.Listed[m.table.Cursor]
	}
	return nil
}

// Chosen returns the keys that an action is about, and how many are marked that it is not about, since they are not listed:
// the marked ones that are listed, or else the current one. What is not seen is not changed. If only keys that are not
// listed are marked, there are none: the one under the cursor is not what was meant.
func (m *Model) Chosen() (keys []live.ID, hidden int) {
	if len(m.Marked) == 0 {
		if r := m.Current(); r != nil {
			keys = []live.ID{r.ID()}
		}
		return keys, 0
	}
	for _, r := range m.feed.Listed {
		if m.Marked[r.ID()] {
			keys = append(keys, r.ID())
		}
	}
	slices.SortFunc(keys, live.CompareIDs)
	return keys, len(m.Marked) - len(keys)
}

// Unmark forgets marks: of these keys, or all with nil. It reports whether there were any.
func (m *Model) Unmark(keys []live.ID) (were bool) {
	were = len(m.Marked) > 0
	if keys == nil {
		clear(m.Marked)
	}
	for _, key := range keys {
		delete(m.Marked, key)
	}
	return were
}

// Pins reports whether somebody works with a key here.
func (m *Model) Pins(id live.ID) bool { return m.Marked[id] || m.moved && id == m.selected }

// Follow keeps the cursor with its key, and in sight.
func (m *Model) Follow() {
	m.cause = min(m.cause, len(m.feed.Offenders))
	at := m.table.Cursor
	if m.moved {
		if i := slices.IndexFunc(m.feed.Listed, func(r *live.Row) bool { return r.ID() == m.selected }); i >= 0 {
			at = i
		}
	}
	m.table.MoveTo(at, len(m.feed.Listed), m.height)
	if r := m.Current(); r != nil {
		m.selected = r.ID()
	}
}

func (m *Model) moveTo(at int) {
	m.moved = false
	m.table.Cursor = at
	m.Follow()
	m.moved = true
}

// Move moves the cursor by that many rows, down if it is positive. Above the first row it goes to the causes.
func (m *Model) Move(by int) {
	switch {
	case m.cause > 0:
		if m.cause -= by; m.cause > len(m.feed.Offenders) {
			m.cause = len(m.feed.Offenders)
		}
		m.cause = max(0, m.cause)
	case by == -1 && m.table.Cursor == 0:
		m.cause = min(1, len(m.feed.Offenders))
	default:
		m.moveTo(m.table.Cursor + by)
	}
}

// Home goes to the first row, and lets the cursor stay there, whatever key it is.
func (m *Model) Home() {
	m.cause = 0
	m.moveTo(0)
	m.moved = false
}

// Page is how many rows are in sight.
func (m *Model) Page() int { return m.height }

// enter shows everything about the key under the cursor, or only the keys of the cause that it is on.
func (m *Model) enter() tea.Cmd {
	if m.cause > 0 {
		m.feed.Filter, m.cause = m.feed.Offenders[m.cause-1].Filter(), 0
		m.feed.Arrange()
		return m.feed.SearchStore()
	}
	if m.Current() == nil {
		return nil
	}
	m.moved = true
	return m.Open()
}

func (m *Model) sort() tea.Cmd {
	m.feed.Order, m.feed.Reversed = (m.feed.Order+1)%live.Orders, false
	m.feed.Arrange()
	m.note.Say(m.feed.Clock, "sorted by "+m.feed.Order.String())
	return nil
}

func (m *Model) reverse() tea.Cmd {
	m.feed.Reversed = !m.feed.Reversed
	m.feed.Arrange()
	return nil
}

// mark marks the key under the cursor or takes its mark away, and goes to the next one.
func (m *Model) mark() tea.Cmd {
	if r := m.Current(); r != nil {
		if m.Marked[r.ID()] {
			delete(m.Marked, r.ID())
		} else {
			m.Marked[r.ID()] = true
		}
		m.Move(1)
	}
	return nil
}

// View draws the screen in so many columns and lines.
func (m *Model) View(width, height int) string {
	lines := m.above(width)
	m.height = max(1, height-len(lines)-1)
	m.Follow()
	from, to := m.table.InSight(len(m.feed.Listed), m.height)
	lines = append(lines, m.rows(m.feed.Listed[from:to], width)...)
	if len(m.feed.Listed) == 0 {
		lines = append(lines, "  "+m.theme.Plain.Of(m.nothing()))
	}
	return ui.Join(lines)
}

// above are the lines above the table: what denied keys have in common, and the filter.
func (m *Model) above(width int) (lines []string) {
	if len(m.feed.Offenders) > 0 {
		lines = append(lines, m.causes(width))
	}
	if m.feed.Filter.Text != "" {
		lines = append(lines, m.filter.filterText(width))
	}
	return lines
}

// causes says what denied keys have in common, and how much of what is denied is of these.
func (m *Model) causes(width int) string {
	text := m.theme.Faint.Of("why:")
	for i := range m.feed.Offenders {
		o := &m.feed.Offenders[i]
		style, mark := m.theme.Plain, "   "
		if i == m.cause-1 {
			style, mark = m.theme.Accent, " > "
		}
		share := fmt.Sprintf(" %.0f %%", 100*o.Share)
		part := m.theme.Accent.Of(mark) + style.Of(o.By.String()+" "+output.Printable(o.Name)+share)
		if i > 0 && ui.Width(text)+ui.Width(part) > width {
			break
		}
		text += part
	}
	if hint := "   (↑ enter: show only these)"; m.cause == 0 && !m.Still && ui.Width(text)+len(hint) <= width {
		text += m.theme.Faint.Of(hint)
	}
	return ui.Fit(text, width)
}

// nothing says why the list is empty.
func (m *Model) nothing() string {
	switch f := m.feed; {
	case f.Filter.Text != "" && !f.FollowsAll() && !f.Search.Whole:
		return "none that is followed matches; looking in the store…"
	case f.Filter.Text != "" && len(f.Rows) > 0:
		return "none matches; esc ends the filter"
	case f.IsScanning():
		return "looking for keys…"
	}
	return "nothing in use matches " + m.feed.Selection
}
