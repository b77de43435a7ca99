// Package contexts has the menu in which the context to look at is chosen.
package contexts

import (
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/table"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// Menu lists contexts, with a cursor.
type Menu struct {
	table table.Model
	all   []source.Context
}

// New returns a menu of contexts, of which there is at least one, with the cursor on the one in view.
func New(all []source.Context, columns, height int) *Menu {
	none := lipgloss.NewStyle()
	m := &Menu{all: all, table: table.New(table.WithFocused(true),
		table.WithStyles(table.Styles{Header: none.PaddingRight(gap), Cell: none.PaddingRight(gap), Selected: none}))}
	m.fill(columns, height)
	for i := range all {
		if all[i].InView {
			m.table.MoveDown(i)
		}
	}
	return m
}

// Press takes a key. The menu is done when a context was chosen, or none is to be.
func (m *Menu) Press(msg tea.KeyMsg) (chosen *source.Context, done bool) {
	switch msg.String() {
	case "enter":
		return &m.all[m.table.Cursor()], true
	case "esc", "q", ":":
		return nil, true
	}
	m.table, _ = m.table.Update(msg)
	return nil, false
}

// Row is a context as it is drawn.
type Row struct {
	Text                string
	Protected, AtCursor bool
}

const (
	gap    = 2 // columns between two columns
	cursor = "▸"
)

// Rows draws what is in sight of the contexts, in at most that many columns and lines.
func (m *Menu) Rows(columns, height int) (rows []Row) {
	m.fill(columns, height)
	lines := strings.Split(m.table.View(), "\n")[1:] // without the titles
	at := slices.IndexFunc(lines, func(text string) bool { return strings.HasPrefix(text, cursor) })
	for i, text := range lines {
		if n := m.table.Cursor() - at + i; n >= 0 && n < len(m.all) {
			rows = append(rows, Row{strings.TrimRight(text, " "), m.all[n].Protected, i == at})
		}
	}
	return rows
}

// protected marks a protected context. leastAccess is how much of what may be done there is shown before all of a name.
const (
	protected   = "PROTECTED"
	leastAccess = len(protected) + 1
)

// fill gives the table its rows, and its columns their widths: the store is cut first, then the rest of
// what may be done there, and the name last.
func (m *Menu) fill(columns, height int) {
	cells := make([]table.Row, len(m.all))
	titles := make([]table.Column, 4)
	for i := range m.all {
		x := &m.all[i]
		mark, access := " ", ""
		if i == m.table.Cursor() {
			mark = cursor
		}
		switch {
		case x.Protected && x.ReadOnly:
			access = protected + " read-only"
		case x.Protected:
			access = protected
		case x.ReadOnly:
			access = "read-only"
		}
		name := output.Printable(x.Name)
		if x.InView {
			name += " (in view)"
		}
		cells[i] = table.Row{mark, name, access, output.Printable(x.Store)}
		for n, text := range cells[i] {
			titles[n].Width = max(titles[n].Width, output.Width(text))
		}
	}
	for n := range titles {
		room := columns - gap
		if access := titles[2].Width; n == 1 && access > 0 {
			room -= gap + min(access, leastAccess)
		}
		titles[n].Width = max(0, min(titles[n].Width, room))
		if titles[n].Width > 0 {
			columns -= titles[n].Width + gap
		}
	}
	m.table.SetColumns(titles)
	m.table.SetRows(cells)
	m.table.SetHeight(max(1, height) + 1) // with the titles
	m.table.SetWidth(1000)                // the columns are as wide as they may be
}
