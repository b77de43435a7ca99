// Package change is what the dashboard changes: it asks before a reset, an undo or an override, does what was agreed to
// outside the loop, and says what came of it.
package change

import (
	"context"
	"io"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
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
	// Chosen are the keys that a reset is about, and how many are marked that it is not about.
	Chosen func() (keys []live.ID, hidden int)
	// Unmark forgets the marks of keys.
	Unmark func(keys []live.ID) bool
	// Clipboard is the terminal, which is asked to copy; nil where nobody can paste.
	Clipboard io.Writer

	question    *question
	form        *form         // where an override is typed in; nil if it is not open
	lastReset   *live.Changed // what u undoes; nil if there is nothing to undo
	lastKeys    []live.ID     // those of lastReset
	acting      bool          // an action is under way
	lastCommand string        // that was copied
	width       int
	working     panics.Group // runs the actions
}

// New returns a model that has done nothing yet.
func New(ctx context.Context, feed *live.Feed, theme *ui.Theme, note *ui.Note) *Model {
	return &Model{ctx: ctx, feed: feed, theme: theme, note: note, width: 80}
}

// Bindings are the keys that act on a key of the store. Other limiters decide by theirs, so these can only be reset.
func (m *Model) Bindings() []ui.Binding {
	asks := func(effect store.OverrideEffect) func() tea.Cmd { return func() tea.Cmd { return m.askEffect(effect) } }
	var all []ui.Binding
	own := m.feed.Layouts == ""
	if m.feed.Actions != nil {
		all = append(all, ui.Bind("r", "reset", m.askReset, "r"))
		if own {
			all = append(all, ui.Bind("o", "override", asks(store.OverrideTimes), "o"),
				ui.Bind("b", "block", asks(store.OverrideBlock), "b"),
				ui.Bind("e", "exempt", asks(store.OverrideExempt), "e"),
				ui.Bind("t", "take one unit", m.askTake, "t"))
		} else {
			all = append(all, ui.Bind("o t", "why there are none here", func() tea.Cmd {
				m.say("another limiter decides by these keys; from here they can only be reset")
				return nil
			}, "o", "t"))
		}
	}
	all = append(all, ui.Bind("c", "copy the subject", m.copySubject, "c"))
	if own {
		all = append(all, ui.Bind("y", "copy a command", m.copyCommand, "y"))
	}
	return all
}

// Undo is the binding that undoes the last reset.
func (m *Model) Undo() ui.Binding { return ui.Bind("u", "undo the last reset", m.askUndo, "u") }

// Wait waits until what was begun is done, and returns the error of a panic of it.
func (m *Model) Wait() error { return m.working.Wait() }

// IsAsking reports whether something is to be answered or filled in, and IsActing whether something is being done.
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
	case interface{ absorb(*Model) tea.Cmd }:
		m.acting = false
		return msg.absorb(m)
	case actionFailed:
		m.acting = false
		m.complain(msg.err)
	case copied:
		if msg.err != nil {
			m.complain(msg.err)
		} else {
			m.say("copied" + msg.hint + " " + output.Printable(msg.text))
		}
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

func (m *Model) complain(err error) { m.note.Complain(m.feed.Clock, err) }

// isBusy says so if something is being done already.
func (m *Model) isBusy() bool {
	if m.acting {
		m.say("wait until the last action is done")
	}
	return m.acting
}

// act does what was asked for, outside the loop. The dashboard ends only after it is done.
func (m *Model) act(do func() tea.Msg) tea.Cmd {
	m.acting = true
	done := make(chan tea.Msg, 1)
	m.working.Go(func() {
		var msg tea.Msg
		if err := panics.Call(func() error { msg = do(); return nil }); err != nil {
			msg = actionFailed{err}
		}
		done <- msg
	})
	return func() tea.Msg { return <-done }
}
