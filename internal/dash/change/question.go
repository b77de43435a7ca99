package change

import (
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/ui"
)

// question is asked before something is changed.
type question struct {
	title string
	about []string
	// name has to be typed for a yes, in input. It is empty where a key is enough.
	name  string
	input textinput.Model
	do    func() done // what a yes does
}

// ask asks before do is done. In a protected context the context's name has to be typed.
func (m *Model) ask(title string, lines []string, do func() done) tea.Cmd {
	q := &question{title: title, about: lines, do: do}
	m.question = q
	if m.feed.Protected {
		q.name, q.input = m.feed.Context, ui.NewInput()
		q.input.Focus()
	}
	return nil
}

// answer takes a key that is pressed at a question. Anything but a clear yes is a no.
func (q *question) answer(m *Model, msg tea.KeyMsg) tea.Cmd {
	pressed := msg.String()
	switch {
	case q.name == "" && (pressed == "y" || pressed == "Y"):
	case q.name != "" && msg.Type == tea.KeyEnter && q.input.Value() == q.name:
	case q.name != "" && msg.Type != tea.KeyEnter && msg.Type != tea.KeyEsc:
		q.input, _ = q.input.Update(msg)
		return nil
	default:
		m.question = nil
		m.say("nothing was changed")
		return nil
	}
	m.question = nil
	return m.act(q.do)
}

// lines draws the question in at most that many lines.
func (q *question) lines(t *ui.Theme, height int) []string {
	key := func(key, does string) string { return t.Bold.Of(key) + t.Plain.Of(" "+does) }
	answers := []string{key("y", "yes   ") + key("any other key", "no")}
	if q.name != "" {
		answers = []string{t.Near.Of(q.name + " is protected. Type its name to go on:"), t.Typed(&q.input)}
	}
	room := height - 1 - len(answers)
	lines := []string{t.Bold.Of(q.title + "?")}
	if room >= len(q.about)+2 {
		lines, answers = append(lines, ""), append([]string{""}, answers...)
	}
	for _, text := range q.about[:max(0, min(len(q.about), room))] {
		lines = append(lines, t.Plain.Of(text))
	}
	return append(lines, answers...)
}
