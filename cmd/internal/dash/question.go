package dash

import (
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// question is asked before something is changed.
type question struct {
	title string
	lines []string
	// name has to be typed for a yes, in input. It is empty where a key is enough.
	name  string
	input textinput.Model
	do    func() tea.Msg // what a yes does
}

// ask asks before do is done. In a protected context the context's name has to be typed.
func (m *model) ask(title string, lines []string, do func() tea.Msg) tea.Cmd {
	q := &question{title: title, lines: lines, do: do}
	m.changes.question = q
	if m.Protected {
		q.name, q.input = m.Context, newInput()
		q.input.Focus()
	}
	return nil
}

// answer takes a key that is pressed at a question. Anything but a clear yes is a no.
func (m *model) answer(msg tea.KeyMsg) tea.Cmd {
	q := m.changes.question
	pressed := msg.String()
	switch {
	case q.name == "" && (pressed == "y" || pressed == "Y"):
	case q.name != "" && msg.Type == tea.KeyEnter && q.input.Value() == q.name:
	case q.name != "" && msg.Type != tea.KeyEnter && msg.Type != tea.KeyEsc:
		q.input, _ = q.input.Update(msg)
		return nil
	default:
		m.changes.question = nil
		m.say("nothing was changed")
		return nil
	}
	m.changes.question = nil
	return m.act(q.do)
}

// box draws the question in at most that many lines and columns.
func (q *question) box(height, columns int) []line {
	answers := []line{{{"y", bold}, {" yes   ", output.Plain}, {"any other key", bold}, {" no", output.Plain}}}
	if q.name != "" {
		answers = []line{
			styled(q.name+" is protected. Type its name to go on:", output.Near),
			{{q.input.Value(), bold}, {"▏", output.Plain}},
		}
	}
	const frame = 2 // the lines of the border
	room := height - frame - 1 - len(answers)
	lines := []line{styled(q.title+"?", bold)}
	if room >= len(q.lines)+2 {
		lines, answers = append(lines, nil), append([]line{nil}, answers...)
	}
	for _, text := range q.lines[:max(0, min(len(q.lines), room))] {
		lines = append(lines, plain(text))
	}
	return boxed(append(lines, answers...), columns)
}
