// Package inforce is the dashboard's screen of all overrides in force: whom they are about, until when, what they do now.
package inforce

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Model is the screen.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	// Tell says all about an override, and Revoke and Extend ask for a change of one. The latter are nil where nothing
	// may be changed.
	Tell           func(o *store.Override, does string)
	Revoke, Extend func(o *store.Override) tea.Cmd

	table    ui.Table
	height   int
	all      []store.Override // as they are listed, the ones that apply first at the top
	selected string           // the ID of the one under the cursor
}

// New returns the screen of a feed.
func New(feed *live.Feed, theme *ui.Theme) *Model { return &Model{feed: feed, theme: theme} }

// Bindings are the keys of the screen.
func (m *Model) Bindings() []ui.Binding {
	all := []ui.Binding{ui.Bind("enter", "all about it", m.enter, "enter", "l", "right")}
	if m.Revoke != nil {
		all = append(all, ui.Bind("r", "revoke", m.change(m.Revoke), "r"), ui.Bind("e", "extend", m.change(m.Extend), "e"))
	}
	return all
}

func (m *Model) change(do func(*store.Override) tea.Cmd) func() tea.Cmd {
	return func() tea.Cmd {
		if o := m.current(); o != nil {
			return do(o)
		}
		return nil
	}
}

// Update takes keys and the mouse. y of the mouse is a line of the screen.
func (m *Model) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		return ui.Press(m.Bindings(), msg)
	case tea.MouseMsg:
		from, to := m.table.InSight(len(m.all), m.height)
		switch at := m.table.Top + msg.Y - 1; {
		case at < from || at >= to:
		case at == m.table.Cursor:
			return m.enter()
		default:
			m.Move(at - m.table.Cursor)
		}
	}
	return nil
}

// Move moves the cursor by that many rows.
func (m *Model) Move(by int) {
	m.table.MoveTo(m.table.Cursor+by, len(m.all), m.height)
	if o := m.current(); o != nil {
		m.selected = o.ID
	}
}

// Home goes to the first row.
func (m *Model) Home() { m.Move(-m.table.Cursor) }

// Page is how many rows are in sight.
func (m *Model) Page() int { return m.height }

// Follow lists what is in force now, with the cursor on the override that it was on.
func (m *Model) Follow() {
	m.all = m.feed.Overrides.InForce(m.feed.Clock)
	if i := slices.IndexFunc(m.all, func(o store.Override) bool { return o.ID == m.selected }); i >= 0 {
		m.table.Cursor = i
	}
	m.Move(0)
}

func (m *Model) current() *store.Override {
	if m.table.Cursor < len(m.all) {
		return &m.all[m.table.Cursor]
	}
	return nil
}

// enter shows the whole of the override under the cursor.
func (m *Model) enter() tea.Cmd {
	if o := m.current(); o != nil {
		m.Tell(o, does(live.Effects(m.feed)[o.ID]))
	}
	return nil
}

// does says what an override does, in a few words.
func does(e live.Effect) string {
	switch {
	case e.Denied > 0:
		return "denies " + ui.Rate(e.Denied) + "/s"
	case e.Keys == 0:
		return "no key"
	}
	return output.Plural(e.Keys, "key")
}

// View draws the screen in so many columns and lines.
func (m *Model) View(width, height int) string {
	m.height = max(1, height-1)
	m.Follow()
	if len(m.all) == 0 {
		text := "no override is in force; o on a key sets one"
		if m.feed.Overrides.Problem != nil {
			text = "what is in force is not known"
		}
		return "  " + m.theme.Plain.Of(text)
	}
	from, to := m.table.InSight(len(m.all), m.height)
	effects, rows, names := live.Effects(m.feed), [][]string{}, []string{}
	columns := []ui.Column{{Width: ui.Mark}, {Title: "WHOM"}, {Title: "DOES", Width: 5}, {Title: "UNTIL", Width: 5},
		{Title: "NOW", Width: 6}, {Title: "BY", Width: 8}, {Title: "WHY", Width: 8}}
	whom, need := 1, 0
	for i := from; i < to; i++ {
		o := &m.all[i]
		name := allowance.Whom(o)
		if !o.Names.IsZero() {
			name += " " + allowance.Pattern(o.Names)
		}
		names = append(names, output.Printable(name))
		need = max(need, ui.TextWidth(names[i-from]))
		columns[2].Width = max(columns[2].Width, min(14, len(allowance.Effect(o))))
		columns[3].Width = max(columns[3].Width, len(ui.Until(o.ExpiresAt, m.feed.Clock)))
		columns[4].Width = max(columns[4].Width, len(does(effects[o.ID])))
	}
	const narrow = 60
	if width < narrow {
		columns[4].Width, columns[5].Width, columns[6].Width = 0, 0, 0
	}
	ui.Grow(columns, whom, width, 8)
	if more := columns[whom].Width - need; more > 0 && width >= narrow { // for who set it, and why
		columns[whom].Width -= more
		columns[5].Width += more / 3
		columns[6].Width += more - more/3
	}
	prefix, names := textcut.Distinct(names, columns[whom].Width)
	if prefix != "" {
		columns[whom].Title = ui.CutMiddle("WHOM "+prefix+"…", columns[whom].Width)
	}
	for i := from; i < to; i++ {
		o, cursor, named := &m.all[i], " ", m.theme.Plain
		if i == m.table.Cursor {
			cursor, named = ">", m.theme.Accent
		}
		plain := m.theme.Plain
		rows = append(rows, []string{m.theme.Accent.Of(cursor), named.Of(names[i-from]), m.theme.Near.Of(allowance.Effect(o)),
			plain.Of(ui.Until(o.ExpiresAt, m.feed.Clock)), plain.Of(does(effects[o.ID])), plain.Of(output.Printable(o.By)),
			plain.Of(output.Printable(o.Reason))})
	}
	return ui.Join(m.theme.Lines(columns, rows))
}
