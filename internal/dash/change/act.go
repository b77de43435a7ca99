package change

import (
	"fmt"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// noRow says that there is nothing to change.
const noRow = "no row is selected"

func (m *Model) askReset() tea.Cmd {
	r := m.Current()
	if m.isBusy() {
		return nil
	}
	if r == nil {
		m.say(noRow)
		return nil
	}
	key, about := r.Key, output.Printable(r.Key.String())
	if r.Found() {
		about += "  " + live.UsedOf(r) + " used"
	}
	lines := []string{about, "", "A backup is kept; u brings back what was not used since."}
	return m.ask("Delete 1 key", lines, func() done {
		reset, err := m.feed.Actions.Reset(m.ctx, key)
		return func(m *Model) (string, error) { return m.wasReset(key, reset, err) }
	})
}

func (m *Model) wasReset(key store.Key, reset live.Changed, err error) (string, error) {
	if reset.Backup != "" {
		m.lastReset, m.lastKey = &reset, key
	}
	switch {
	case err != nil && reset.Backup != "": // the end of a long line is cut, so the facts come first
		return "", fmt.Errorf("only %s certainly deleted; u brings them back: %w", output.Count(reset.Keys, "key"),
			err)
	case err != nil:
		return "", err
	case reset.Keys == 0:
		return "none of it was in use, so nothing was deleted", nil
	}
	return fmt.Sprintf("deleted %s; u brings back what was in use", output.Count(reset.Keys, "key")), nil
}

func (m *Model) askUndo() tea.Cmd {
	if m.isBusy() {
		return nil
	}
	if m.lastReset == nil {
		m.say("nothing was reset from here yet")
		return nil
	}
	reset := *m.lastReset
	lines := []string{output.Printable(m.lastKey.String()), "The original expiry stays.", "Backup: " + reset.Backup}
	return m.ask("Bring back "+output.Count(reset.Keys, "key"), lines, func() done {
		undone, err := m.feed.Actions.Undo(m.ctx, reset)
		return func(m *Model) (string, error) {
			if err != nil {
				return "", err
			}
			m.lastReset = nil
			text := "brought back " + output.Count(undone.Keys, "key")
			if undone.InUse > 0 {
				text += fmt.Sprintf(", %d used since: `limitctl undo --replace`", undone.InUse)
			}
			if undone.Lapsed > 0 {
				text += fmt.Sprintf(", %d expired meanwhile", undone.Lapsed)
			}
			return text, nil
		}
	})
}

// askOverride opens the form for the current key, with the effect already chosen.
func (m *Model) askOverride(effect store.OverrideEffect) tea.Cmd {
	r := m.Current()
	switch {
	case m.isBusy():
		return nil
	case r == nil:
		m.say(noRow)
		return nil
	case !m.feed.Overrides.Kept():
		m.say("this store keeps no overrides")
		return nil
	}
	m.form = newForm(r, effect)
	if network := m.feed.Filter.Network(r); network != "" && effect == store.OverrideBlock {
		m.form.inputs[whomField].SetValue(network)
	}
	return nil
}

// Revoke asks for the end of an override in force.
func (m *Model) Revoke(o *store.Override) tea.Cmd {
	if m.isBusy() {
		return nil
	}
	ended := *o
	return m.ask("End this override", ui.Override(&ended, m.feed.Clock), func() done {
		err := m.feed.Actions.RevokeOverride(m.ctx, ended.ID)
		return func(*Model) (string, error) {
			return "ended: " + output.Printable(allowance.All(&ended)), err
		}
	})
}
