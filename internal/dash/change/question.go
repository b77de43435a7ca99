package change

import (
	"io"
	"slices"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/dash/ui"
)

// question is asked before something is changed.
type question struct {
	title string
	about []string
	// name has to be typed for a yes, in input. It is empty where a key is enough.
	name  string
	input textinput.Model
	do    func() tea.Msg // what a yes does; nil if nothing is asked
}

// ask asks before do is done. In a protected context the context's name has to be typed.
func (m *Model) ask(title string, lines []string, do func() tea.Msg) tea.Cmd {
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
	case q.do == nil: // it only says something
		m.question = nil
		return nil
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
	answers, title := []string{key("y", "yes   ") + key("any other key", "no")}, q.title+"?"
	if q.do == nil {
		answers, title = []string{key("any key", "back")}, q.title
	}
	if q.name != "" {
		answers = []string{t.Near.Of(q.name + " is protected. Type its name to go on:"), t.Typed(&q.input)}
	}
	room := height - 1 - len(answers)
	lines := []string{t.Bold.Of(title)}
	if room >= len(q.about)+2 {
		lines, answers = append(lines, ""), append([]string{""}, answers...)
	}
	for _, text := range q.about[:max(0, min(len(q.about), room))] {
		lines = append(lines, t.Plain.Of(text))
	}
	return append(lines, answers...)
}

// Tell shows lines until a key is pressed.
func (m *Model) Tell(title string, lines []string) {
	m.question = &question{title: title, about: ui.Wrapped(lines, m.width-border)}
}

// copySubject copies the subject of the current key.
func (m *Model) copySubject() tea.Cmd {
	r := m.Current()
	if r == nil {
		return nil
	}
	return copyText(m, r.Key.Subject, "")
}

// copyCommand copies a command about the current key, and the next one when it is pressed again.
func (m *Model) copyCommand() tea.Cmd {
	r := m.Current()
	if r == nil || m.feed.Commands == nil {
		return nil
	}
	all := m.feed.Commands(&r.Entry)
	if len(all) == 0 {
		m.say("no command is about this key alone; c copies its subject")
		return nil
	}
	next := (slices.Index(all, m.lastCommand) + 1) % len(all)
	m.lastCommand = all[next]
	hint := ""
	if len(all) > 1 {
		hint = " (y again: the next)"
	}
	return copyText(m, all[next], hint)
}

// copyText gives a text to the terminal, which puts it where texts are pasted from (OSC 52). A subject has at most 1,024
// bytes, and the text goes as base64, so it does nothing else to the terminal, whatever it holds.
func copyText(m *Model, text, hint string) tea.Cmd {
	if m.Clipboard == nil {
		return nil
	}
	tmux, to := m.feed.Tmux, m.Clipboard
	return func() tea.Msg {
		sequence := ansi.SetSystemClipboard(text)
		if tmux { // which may itself take it, pass it on, or neither, by its settings
			sequence += ansi.TmuxPassthrough(sequence)
		}
		_, err := io.WriteString(to, sequence)
		return copied{text, hint, err}
	}
}

// copied: a text was given to the terminal.
type copied struct {
	text, hint string
	err        error
}
