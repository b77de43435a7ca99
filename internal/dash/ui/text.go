package ui

import (
	"github.com/charmbracelet/bubbles/viewport"
	tea "github.com/charmbracelet/bubbletea"
)

// Text is a screen of text that is scrolled by the keys that every screen has.
type Text struct{ view viewport.Model }

// Bindings are the keys that only this screen has: none.
func (t *Text) Bindings() []Binding { return nil }

// Update takes no message.
func (t *Text) Update(tea.Msg) tea.Cmd { return nil }

// Move scrolls the text.
func (t *Text) Move(by int) { t.view.SetYOffset(t.view.YOffset + by) }

// Home goes to the beginning.
func (t *Text) Home() { t.view.GotoTop() }

// Page is how many lines are in sight.
func (t *Text) Page() int { return t.view.Height }

// Show draws lines, from where the text is scrolled to.
func (t *Text) Show(lines []string, width, height int) string {
	t.view.Width, t.view.Height = width, height
	t.view.SetContent(Join(lines))
	t.view.SetYOffset(t.view.YOffset)
	return t.view.View()
}
