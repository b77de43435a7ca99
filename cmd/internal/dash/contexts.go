package dash

import (
	"errors"
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/contexts"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// ErrSwitched is returned by Run when another context was opened to be shown instead.
var ErrSwitched = errors.New("another context was chosen")

// switched: another context was opened, or could not be.
type switched struct {
	name string
	err  error
}

// askContext lists the contexts that can be looked at.
func (m *model) askContext() tea.Cmd {
	if m.isBusy() {
		return nil
	}
	all, err := m.Contexts()
	switch {
	case err != nil:
		m.complain(err)
	case len(all) == 0:
		m.say("the configuration has no contexts")
	default:
		m.changes.contexts = contexts.New(all, m.width-questionBorder, m.contextRows())
	}
	return nil
}

// contextRows is how many contexts are in sight.
func (m *model) contextRows() int {
	const around = 4 // the border, the title and the hints
	return max(1, m.bodyHeight()-around)
}

// chooseContext takes a key that is pressed at the list of contexts.
func (m *model) chooseContext(msg tea.KeyMsg) tea.Cmd {
	chosen, done := m.changes.contexts.Press(msg)
	if done {
		m.changes.contexts = nil
	}
	if chosen == nil || chosen.InView {
		return nil
	}
	name := chosen.Name
	do := func() tea.Msg { return switched{name, m.Switch(m.ctx, name)} }
	var lost []string
	if marked := len(m.keys.marked); marked > 0 {
		lost = append(lost, areKeys(marked)+" marked. The marks are lost.")
	}
	if m.changes.lastReset != nil {
		lost = append(lost, "u cannot undo the last reset any more.", "The command that does is printed when you leave.")
	}
	if lost == nil {
		return m.act(do)
	}
	m.changes.question = &question{title: "Go to " + output.Printable(name), lines: wrapped(lost, m.width-questionBorder), do: do}
	return nil
}

// absorbSwitched ends this dashboard for that of the other context, or says why it could not be opened.
func (m *model) absorbSwitched(done switched) tea.Cmd {
	m.changes.acting = false
	if done.err != nil {
		m.complain(fmt.Errorf("%s cannot be opened: %w", output.Printable(done.name), done.err))
		return nil
	}
	m.switched = true
	return tea.Quit
}

// contextsBox draws the list of contexts.
func (m *model) contextsBox() []line {
	lines := []line{styled("Context", bold)}
	for _, row := range m.changes.contexts.Rows(m.width-questionBorder, m.contextRows()) {
		l := plain(row.Text)
		if row.Protected {
			l = styled(row.Text, output.AtEnd)
		}
		if row.AtCursor {
			l = l.reverse(0)
		}
		lines = append(lines, l)
	}
	return boxed(append(lines, line{{"enter", bold}, {" go there  ", output.Plain}, {"esc", bold}, {" stay", output.Plain}}), m.width)
}
