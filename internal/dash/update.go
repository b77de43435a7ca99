package dash

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/source"
)

// onlyReads reports whether a message makes the dashboard read the store, and changes nothing that is drawn.
func onlyReads(msg tea.Msg) bool {
	switch msg.(type) {
	case refreshDue, denialsDue, overridesDue, passDue:
		return true
	}
	return false
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg.(type) {
	case tea.WindowSizeMsg, tea.KeyMsg, tea.MouseMsg:
		m.keys.changed = true
	}
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.arrange()
	case tea.KeyMsg:
		return m, m.press(msg)
	case tea.MouseMsg:
		return m, m.mouse(msg)
	case source.Fetched:
		m.now = m.Now()
		m.absorb(msg)
		return m, m.nextLook(msg.Took)
	case refreshDue:
		if msg.tick == m.ticks && !m.paused {
			return m, m.look()
		}
	case source.Scanned:
		return m, m.absorbScan(msg)
	case source.DeniedSince:
		return m, m.absorbDenials(msg)
	case denialsDue:
		if m.paused {
			return m, m.after(max(m.Refresh, denialsEvery), denialsDue{})
		}
		return m, m.lookDenials()
	case source.OverridesLook:
		return m, m.absorbOverrides(msg)
	case overridesDue:
		if m.paused {
			return m, m.after(max(m.Refresh, overridesEvery), overridesDue{})
		}
		return m, m.lookOverrides()
	case overrideDone:
		return m, m.absorbOverrideDone(msg)
	case passDue:
		switch {
		case msg.pass != m.feed.pass: // a scan began meanwhile
			return m, nil
		case m.paused || m.isAway():
			return m, m.after(passEvery/2, msg)
		}
		return m, m.scan()
	case clockTick:
		m.now = m.Now()
		if m.now.After(m.note.until) {
			m.note = note{}
		}
		return m, m.clock()
	case resetDone:
		return m, m.absorbReset(msg)
	case actionFailed:
		m.changes.acting = false
		m.complain(msg.err)
	case undoDone:
		return m, m.absorbUndo(msg)
	case taken:
		return m, m.absorbTaken(msg)
	case copied:
		m.absorbCopied(msg)
	}
	return m, nil
}

// nextLook plans the look after one that took so long.
func (m *model) nextLook(took time.Duration) tea.Cmd {
	m.ticks++
	// A store that takes long is given at least as long a rest.
	pause := max(m.Refresh, m.LeastRefresh(len(m.feed.rows))) - took
	return m.after(max(pause, min(took, m.Refresh)), refreshDue{m.ticks})
}

// mouse follows the wheel, and clicks on headers and rows.
func (m *model) mouse(msg tea.MouseMsg) tea.Cmd {
	if m.isAsking() || msg.Action != tea.MouseActionPress {
		return nil
	}
	const step = 3
	switch msg.Button {
	case tea.MouseButtonWheelUp:
		return m.move(-step)
	case tea.MouseButtonWheelDown:
		return m.move(step)
	case tea.MouseButtonLeft:
		return m.screen.click(m, msg.X, msg.Y-len(m.headLines()))
	}
	return nil
}
