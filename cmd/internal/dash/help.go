package dash

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// helpView is the screen that says what each key does.
type helpView struct{ scroll int }

func (v *helpView) move(m *model, by int) { v.scroll = m.scrollBy(v.scroll, by, v.text(m)) }

func (v *helpView) enter(*model) tea.Cmd { return nil }

func (v *helpView) click(*model, int, int) tea.Cmd { return nil }

func (v *helpView) hints(*model) string { return "esc back" }

func (v *helpView) lines(m *model) []line { return m.textFrom(v.scroll, v.text(m)) }

// toggleHelp shows the help, or goes back from it.
func (m *model) toggleHelp() tea.Cmd {
	if m.screen == &m.help {
		return m.goBack()
	}
	m.show(&m.help)
	return nil
}

func (v *helpView) text(m *model) []line {
	lines := []line{styled("keys", bold), nil}
	for _, b := range m.bindings() {
		help := b.Help()
		lines = append(lines, line{{"  " + pad(help.Key, 8, false), bold}, {help.Desc, output.Plain}})
	}
	lines = append(lines, nil, styled("colours", bold), nil,
		line{{"  ███░ ", output.Calm}, {"room is left", output.Plain}},
		line{{"  ███░ ", output.Near}, {"80% or more is used", output.Plain}},
		line{{"  ████ ", output.AtEnd}, {"nothing is left; RESETS says when one unit fits again (+)", output.Plain}})
	if m.Actions == nil && m.Play == nil {
		lines = append(lines, nil, plain("The context is read-only: nothing can be changed from here."))
	}
	return lines
}
