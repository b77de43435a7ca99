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
	if m.isOthers() {
		lines = append(lines, nil, styled("other limiters", bold), nil,
			line{{"  " + defectSign + "      ", output.AtEnd}, {"a defect that only a reset puts right, such as no expiry", output.Plain}},
			line{{"  " + defectSign + "      ", output.Near}, {"another defect; the page of the key says which (enter)", output.Plain}},
			nil)
		for _, text := range output.Wrap("Keys are read by the layout "+m.Layouts+". "+
			"Another limiter decides by them: they can be reset, and have no overrides, denials or takes here.", m.width) {
			lines = append(lines, plain(text))
		}
	}
	if m.Actions == nil && m.Play == nil {
		lines = append(lines, nil, plain("The context is read-only: nothing can be changed from here."))
	}
	return lines
}
