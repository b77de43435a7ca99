package change

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// some names the first of keys, each with something about it.
func some(keys []live.ID, about func(live.ID) string) (lines []string) {
	const shown = 5
	for _, key := range keys[:min(len(keys), shown)] {
		lines = append(lines, output.Printable(key.String())+about(key))
	}
	if more := len(keys) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}

// noRow says that there is nothing to change.
const noRow = "no row is selected"

// beyond are what a reset of these keys does not reach, each once.
func beyond(m *Model, ids []live.ID) (texts []string) {
	for _, id := range ids {
		if r := m.feed.Rows[id]; r != nil && r.Layout != "" && m.feed.Beyond != nil {
			if text := m.feed.Beyond(r.Layout); text != "" && !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

func (m *Model) askReset() tea.Cmd {
	keys := m.Chosen()
	if m.isBusy() {
		return nil
	}
	if len(keys) == 0 {
		m.say(noRow)
		return nil
	}
	lines := some(keys, func(key live.ID) string {
		if r := m.feed.Rows[key]; r != nil && r.Found() {
			return "  " + live.UsedOf(r) + " used"
		}
		return ""
	})
	lines = append(lines, "", "A backup is kept; u brings back what was not used since.")
	lines = append(lines, ui.Wrapped(beyond(m, keys), m.width-border)...)
	return m.ask("Delete "+output.Plural(len(keys), "key"), lines, func() done {
		reset, err := m.feed.Actions.Reset(m.ctx, keys)
		return func(m *Model) (string, error) { return m.wasReset(keys, reset, err) }
	})
}

func (m *Model) wasReset(keys []live.ID, reset live.Changed, err error) (string, error) {
	if reset.Backup != "" {
		m.lastReset, m.lastKeys = &reset, keys
	}
	switch {
	case err != nil && reset.Backup != "": // the end of a long line is cut, so the facts come first
		return "", fmt.Errorf("only %s certainly deleted; u brings them back: %w", output.Plural(reset.Keys, "key"),
			err)
	case err != nil:
		return "", err
	}
	m.Unmark()
	if reset.Keys == 0 {
		return "none of it was in use, so nothing was deleted", nil
	}
	return fmt.Sprintf("deleted %s; u brings back what was in use", output.Plural(int(reset.Keys), "key")), nil
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
	// lastKeys are those of the reset that is undone, and not those chosen last.
	lines := some(m.lastKeys, func(live.ID) string { return "" })
	lines = append(lines, "The original expiry stays.", "Backup: "+reset.Backup)
	return m.ask("Bring back "+output.Plural(int(reset.Keys), "key"), lines, func() done {
		undone, err := m.feed.Actions.Undo(m.ctx, reset)
		return func(m *Model) (string, error) {
			if err != nil {
				return "", err
			}
			m.lastReset = nil
			text := "brought back " + output.Plural(int(undone.Keys), "key")
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
