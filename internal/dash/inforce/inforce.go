// Package inforce is the dashboard's screen of all overrides in force.
package inforce

import (
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/textcut"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Model is the screen.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	// Revoke asks for the end of an override; nil where nothing may be changed.
	Revoke func(o *store.Override) tea.Cmd

	ui.Table
	all      []store.Override // as they are listed, the ones that apply first at the top
	selected string           // the ID of the one under the cursor
}

// New returns the screen of a feed.
func New(feed *live.Feed, theme *ui.Theme) *Model { return &Model{feed: feed, theme: theme} }

// Bindings are the keys of the screen.
func (m *Model) Bindings() []ui.Binding {
	if m.Revoke == nil {
		return nil
	}
	return []ui.Binding{ui.Bind("r", "revoke", m.revoke, "r")}
}

func (m *Model) revoke() tea.Cmd {
	if m.Cursor >= len(m.all) {
		return nil
	}
	return m.Revoke(&m.all[m.Cursor])
}

// Move moves the cursor by that many rows.
func (m *Model) Move(by int) {
	m.Table.Move(by, len(m.all))
	if m.Cursor < len(m.all) {
		m.selected = m.all[m.Cursor].ID
	}
}

// Follow lists what is in force now, with the cursor on the override that it was on.
func (m *Model) Follow() {
	m.all = m.feed.Overrides.InForce(m.feed.Clock)
	if i := slices.IndexFunc(m.all, func(o store.Override) bool { return o.ID == m.selected }); i >= 0 {
		m.Cursor = i
	}
	m.Move(0)
}

// View draws the screen in so many columns and lines, with all about the override under the cursor where there is room.
func (m *Model) View(width, height int) string {
	const pane, narrow = 5, 60
	about := height > 2*pane
	if m.Height = max(1, height-1); about {
		m.Height -= pane
	}
	m.Follow()
	if len(m.all) == 0 {
		text := "no override is in force; o on a key sets one"
		if m.feed.Overrides.Problem != nil {
			text = "what is in force is not known"
		}
		return "  " + m.theme.Plain.Of(text)
	}
	columns := []ui.Column{{Width: ui.Mark}, {Title: "WHOM"}, {Title: "DOES", Width: 26}, {Title: "UNTIL", Width: 12}}
	if width < narrow {
		columns[2].Width, columns[3].Width = 14, 5
	}
	const whom = 1
	ui.Grow(columns, whom, width, 8)
	need := len(columns[whom].Title)
	all := m.all[m.Top:min(m.Top+m.Height, len(m.all))]
	rows, names := make([][]string, len(all)), make([]string, len(all))
	for i := range all {
		names[i] = allowance.WhomText(&all[i])
		need = max(need, ui.TextWidth(names[i]))
	}
	columns[whom].Width = min(columns[whom].Width, need)
	prefix, names := textcut.Distinct(names, columns[whom].Width)
	if prefix != "" {
		columns[whom].Title = ui.CutMiddle("WHOM "+prefix+"…", columns[whom].Width)
	}
	for i := range all {
		o, cursor, named, plain := &all[i], " ", m.theme.Plain, m.theme.Plain
		if m.Top+i == m.Cursor {
			cursor, named = ">", m.theme.Accent
		}
		rows[i] = []string{m.theme.Accent.Of(cursor), named.Of(names[i]), m.theme.Near.Of(allowance.Effect(o)),
			plain.Of(ui.Until(o.ExpiresAt, m.feed.Clock))}
	}
	lines := m.theme.Lines(columns, rows)
	if about {
		for len(lines) <= m.Height {
			lines = append(lines, "")
		}
		lines = append(lines, m.theme.Faint.Of(strings.Repeat("─", width)))
		for _, text := range ui.Wrapped(ui.Override(&m.all[m.Cursor], m.feed.Clock), width) {
			lines = append(lines, m.theme.Plain.Of(text))
		}
	}
	return ui.Join(lines)
}
