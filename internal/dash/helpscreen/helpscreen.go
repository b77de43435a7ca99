// Package helpscreen is the dashboard's screen that says what each key does.
package helpscreen

import (
	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/bubbles/viewport"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/ui"
)

// Model is the screen.
type Model struct {
	theme *ui.Theme
	text  viewport.Model
	// Keys are all keys that do something, and Notes what is said below them.
	Keys  []ui.Binding
	Notes []string
}

// New returns the screen.
func New(theme *ui.Theme) *Model { return &Model{theme: theme, text: viewport.New(0, 0)} }

// Bindings are the keys that only this screen has: none.
func (m *Model) Bindings() []ui.Binding { return nil }

// Update takes no message: the keys that scroll are those of every screen.
func (m *Model) Update(tea.Msg) tea.Cmd { return nil }

// Move scrolls the text.
func (m *Model) Move(by int) { m.text.SetYOffset(m.text.YOffset + by) }

// Home goes to the beginning of the text.
func (m *Model) Home() { m.text.GotoTop() }

// Page is how many lines are in sight.
func (m *Model) Page() int { return m.text.Height }

// View draws the screen in so many columns and lines.
func (m *Model) View(width, height int) string {
	keys := ui.Keys(m.Keys)
	columns := [][]key.Binding{keys}
	if width >= 80 {
		half := (len(keys) + 1) / 2
		columns = [][]key.Binding{keys[:half], keys[half:]}
	}
	help := m.theme.Help(width)
	lines := append(ui.Lines(help.FullHelpView(columns)), "")
	for _, text := range ui.Wrapped(m.Notes, width) {
		lines = append(lines, m.theme.Plain.Of(text))
	}
	m.text.Width, m.text.Height = width, height
	m.text.SetContent(ui.Join(lines))
	m.text.SetYOffset(m.text.YOffset)
	return m.text.View()
}
