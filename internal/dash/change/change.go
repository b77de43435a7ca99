// Package change asks before a reset, an undo or an override, does it outside the loop, and says what came of it.
package change

import (
	"context"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Model is what is asked for, and was done.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	note  *ui.Note
	ctx   context.Context
	// Current is the row that an action is about, nil for none.
	Current func() *live.Row

	question  *question
	form      *form         // where an override is typed in; nil if it is not open
	lastReset *live.Changed // what u undoes; nil if there is nothing to undo
	lastKey   store.Key     // that of lastReset
	acting    bool          // an action is under way
	width     int
	working   panics.Group // runs the actions
}

// New returns a model that has done nothing yet.
func New(ctx context.Context, feed *live.Feed, theme *ui.Theme, note *ui.Note) *Model {
	return &Model{ctx: ctx, feed: feed, theme: theme, note: note, width: 80}
}

// Bindings are the keys that act on a key of the store.
func (m *Model) Bindings() []ui.Binding {
	asks := func(effect store.OverrideEffect) func() tea.Cmd {
		return func() tea.Cmd { return m.askOverride(effect) }
	}
	if m.feed.Actions == nil {
		return nil
	}
	return []ui.Binding{ui.Bind("r", "reset", m.askReset, "r"),
		ui.Bind("o", "override", asks(store.OverrideTimes), "o"),
		ui.Bind("b", "block", asks(store.OverrideBlock), "b"),
		ui.Bind("e", "exempt", asks(store.OverrideExempt), "e")}
}

// Undo is the binding that undoes the last reset.
func (m *Model) Undo() ui.Binding { return ui.Bind("u", "undo the last reset", m.askUndo, "u") }

// Wait waits until what was begun is done, and returns the error of a panic of it.
func (m *Model) Wait() error { return m.working.Wait() }

// IsAsking reports whether something is to be answered or filled in.
func (m *Model) IsAsking() bool { return m.question != nil || m.form != nil }

// IsActing reports whether something is being done.
func (m *Model) IsActing() bool { return m.acting }

// Update takes keys while something is asked, and what was done.
func (m *Model) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		if m.question != nil {
			return m.question.answer(m, msg)
		}
		return m.form.fill(m, msg)
	case done: // what was changed is read again at once
		m.acting = false
		if text, err := msg(m); err != nil {
			m.note.Complain(m.feed.Clock, err)
		} else {
			m.say(text)
		}
		return tea.Batch(m.feed.Look(), m.feed.LookOverrides())
	}
	return nil
}

// View draws what is asked, in at most so many columns and lines; nil if nothing is.
func (m *Model) View(width, height int) []string {
	m.width = width
	switch {
	case m.question != nil:
		return m.theme.Box(m.question.lines(m.theme, height-frame), width)
	case m.form != nil:
		return m.theme.Box(m.form.lines(m.theme, height-frame, width-border), width)
	}
	return nil
}

// frame is the lines of the border of a box, and border its columns.
const (
	frame  = 2
	border = 4
)

func (m *Model) say(text string) { m.note.Say(m.feed.Clock, text) }

// isBusy says so if something is being done already.
func (m *Model) isBusy() bool {
	if m.acting {
		m.say("wait until the last action is done")
	}
	return m.acting
}

// done is called in the loop when an action is over, and says what came of it.
type done func(m *Model) (text string, err error)

// act does what was asked for, outside the loop. The dashboard ends only after it is done.
func (m *Model) act(do func() done) tea.Cmd {
	m.acting = true
	over := make(chan done, 1)
	m.working.Go(func() {
		var result done
		if err := panics.Call(func() error { result = do(); return nil }); err != nil {
			result = func(*Model) (string, error) { return "", err }
		}
		over <- result
	})
	return func() tea.Msg { return <-over }
}

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
