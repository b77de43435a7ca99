package dash

import (
	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
)

// filterLine is the filter of the lists, and the line that it is typed in.
type filterLine struct {
	filter
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// newInput returns a line to type in that needs nothing but keys.
func newInput() textinput.Model {
	input := textinput.New()
	input.Cursor.SetMode(cursor.CursorStatic)
	input.KeyMap.Paste.SetEnabled(false) // terminals paste by themselves
	return input
}

// editFilter lets one type a filter, which applies while it is typed.
func (m *model) editFilter() tea.Cmd {
	f := &m.filter
	f.editing, f.before = true, f.text
	f.input.SetValue(f.text)
	f.input.CursorEnd()
	f.input.Focus()
	return nil
}

func (m *model) typeFilter(msg tea.KeyMsg) tea.Cmd {
	f := &m.filter
	switch msg.Type {
	case tea.KeyEnter:
		f.editing = false
		f.input.Blur()
		return nil
	case tea.KeyEsc:
		f.editing = false
		f.input.Blur()
		m.useFilter(f.before)
		return nil
	case tea.KeyUp:
		return m.move(-1)
	case tea.KeyDown:
		return m.move(1)
	}
	f.input, _ = f.input.Update(msg)
	m.useFilter(f.input.Value())
	return nil
}

// useFilter applies a filter. A filter that cannot be read leaves the last one as it is.
func (m *model) useFilter(text string) {
	parsed, err := parseFilter(text)
	if err != nil {
		m.complain(err)
		return
	}
	m.note = note{}
	m.filter.filter = parsed
	m.arrange()
}
