package dash

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/panics"
)

// guarded is one in which a panic becomes an error that ends the program. By itself bubbletea prints the goroutine's
// stack over the screen.
type guarded struct {
	tea.Model
	Failed *error // where the error of a panic goes
}

// panicked is the message that a command ended with a panic.
type panicked struct{ err error }

// Init implements tea.Model.
func (c guarded) Init() (cmd tea.Cmd) {
	return c.guard(func() tea.Cmd { return c.Model.Init() })
}

// Update implements tea.Model.
func (c guarded) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if bug, is := msg.(panicked); is {
		*c.Failed = bug.err
		return c, tea.Quit
	}
	return c, c.guard(func() tea.Cmd {
		_, cmd := c.Model.Update(msg)
		return cmd
	})
}

// View implements tea.Model. A panic here ends the dashboard at the next message.
func (c guarded) View() (view string) {
	err := panics.Call(func() error {
		view = c.Model.View()
		return nil
	})
	if err != nil {
		*c.Failed = err
	}
	return view
}

// guard calls f, and quits after a panic of it or of View.
func (c guarded) guard(f func() tea.Cmd) (cmd tea.Cmd) {
	err := panics.Call(func() error {
		cmd = f()
		return nil
	})
	if err != nil {
		*c.Failed = err
	}
	if *c.Failed != nil {
		return tea.Quit
	}
	return caught(cmd)
}

// caught is a command whose panic becomes a message, and of a batch those of all in it.
func caught(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		err := panics.Call(func() error {
			msg = cmd()
			return nil
		})
		if err != nil {
			return panicked{err}
		}
		if batch, is := msg.(tea.BatchMsg); is {
			for i := range batch {
				batch[i] = caught(batch[i])
			}
		}
		return msg
	}
}

// framesPerSecond is how often a terminal gets what has changed. More often costs more than it shows.
const framesPerSecond = 20
