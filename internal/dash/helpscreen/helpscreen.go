// Package helpscreen is the dashboard's screen that says what each key does.
package helpscreen

import (
	"github.com/charmbracelet/bubbles/key"

	"github.com/limitctl/limitctl/internal/dash/ui"
)

// Model is the screen.
type Model struct {
	theme *ui.Theme
	ui.Text
	// Keys are all keys that do something, and Notes what is said below them.
	Keys  []ui.Binding
	Notes []string
}

// New returns the screen.
func New(theme *ui.Theme) *Model { return &Model{theme: theme} }

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
	return m.Show(lines, width, height)
}
