package change

import (
	"fmt"
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Messages of what was done.
type (
	resetDone struct {
		live.Changed
		keys []live.ID
		err  error
	}
	actionFailed struct{ err error }
	undoDone     struct {
		live.Changed
		err error
	}
	taken struct {
		key      store.Key
		decision store.Decision
		err      error
	}
)

// shownKeys is how many of the keys that are to be changed are named.
const shownKeys = 5

// some names the first of keys, each with something about it.
func some(keys []live.ID, about func(live.ID) string) (lines []string) {
	for _, key := range keys[:min(len(keys), shownKeys)] {
		lines = append(lines, output.Printable(key.String())+about(key))
	}
	if more := len(keys) - shownKeys; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}

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
	keys, hidden := m.Chosen()
	if len(keys) == 0 && hidden > 0 {
		m.say(fmt.Sprintf("%s marked, but not listed now; esc ends the filter", areKeys(hidden)))
	}
	if len(keys) == 0 || m.isBusy() {
		return nil
	}
	lines := some(keys, func(key live.ID) string {
		if r := m.feed.Rows[key]; r != nil && r.Found() {
			return "  " + live.UsedOf(r) + " used"
		}
		return ""
	})
	if hidden > 0 {
		lines = append(lines, "", fmt.Sprintf("%s marked too, but not listed now. They are left as they are.", areKeys(hidden)))
	}
	lines = append(lines, "", "They are kept in a backup. Press u to bring them back.")
	lines = append(lines, ui.Wrapped(beyond(m, keys), m.width-border)...)
	return m.ask("Delete "+output.Plural(len(keys), "key"), lines, func() tea.Msg {
		done, err := m.feed.Actions.Reset(m.ctx, keys)
		return resetDone{done, keys, err}
	})
}

// areKeys is the beginning of a sentence about so many keys.
func areKeys(n int) string {
	if n == 1 {
		return "1 key is"
	}
	return output.Plural(n, "key") + " are"
}

func (m *Model) askUndo() tea.Cmd {
	if m.isBusy() {
		return nil
	}
	if m.lastReset == nil {
		m.say("nothing was reset from here yet")
		return nil
	}
	reset, replace := *m.lastReset, m.lastReset.InUse > 0
	// lastKeys are those of the reset that is undone, and not those chosen last.
	lines := some(m.lastKeys, func(live.ID) string { return "" })
	expiry := "They keep their original expiry."
	title := "Bring back " + output.Plural(int(reset.Keys), "key")
	if replace {
		title = fmt.Sprintf("Bring back %s used since, too", output.Plural(int(reset.InUse), "key"))
		expiry = "What was used since the reset is lost."
	}
	lines = append(lines, expiry, "Backup: "+reset.Backup)
	return m.ask(title, lines, func() tea.Msg {
		done, err := m.feed.Actions.Undo(m.ctx, reset, replace)
		return undoDone{done, err}
	})
}

func (m *Model) askTake() tea.Cmd {
	r := m.Current()
	if r == nil || !r.Found() || m.isBusy() {
		return nil
	}
	if !r.LimitKnown() {
		m.say("the limit of " + output.Printable(r.Key.String()) + " is not known, so nothing can be taken")
		return nil
	}
	if o := r.Override; live.IsBlock(o) {
		m.complain(fmt.Errorf("denied: %s is blocked until %s", output.Printable(r.Key.String()), ui.Until(o.ExpiresAt, m.feed.Clock)))
		return nil
	}
	req := store.Request{Key: r.Key, Limit: r.Limit, Cost: 1}
	do := func() tea.Msg {
		var decision [1]store.Decision
		err := m.feed.Store.Decide(m.ctx, store.Take, []store.Request{req}, decision[:])
		return taken{req.Key, decision[0], err}
	}
	if !m.feed.Protected {
		return m.act(do)
	}
	return m.ask("Take one unit", []string{output.Printable(r.Key.String())}, do)
}

// absorb says what an action did, and reads the keys again at once.
func (done resetDone) absorb(m *Model) tea.Cmd {
	for _, key := range done.keys {
		if r := m.feed.Rows[key]; r != nil {
			r.Hold(m.feed.Clock.Add(ui.NoteStays))
		}
	}
	if done.Backup != "" {
		m.lastReset, m.lastKeys = &done.Changed, done.keys
	}
	switch {
	case done.err != nil && done.Backup != "": // the end of a long line is cut, so the facts come first
		m.complain(fmt.Errorf("only %s certainly deleted; u brings them back: %w", output.Plural(int(done.Keys), "key"), done.err))
	case done.err != nil:
		m.complain(done.err)
	case done.Keys == 0:
		m.say("none of it was in use, so nothing was deleted")
		m.Unmark(done.keys)
	default:
		m.say(fmt.Sprintf("deleted %s; u brings back what was in use", output.Plural(int(done.Keys), "key")))
		m.Unmark(done.keys)
	}
	return tea.Batch(m.feed.Look(), m.feed.LookOverrides())
}

func (done undoDone) absorb(m *Model) tea.Cmd {
	switch {
	case done.err != nil:
		m.complain(done.err)
	case done.InUse > 0:
		m.lastReset.InUse = done.InUse
		m.say(fmt.Sprintf("brought back %s; %d used since and left, u brings these back, too",
			output.Plural(int(done.Keys), "key"), done.InUse))
	default:
		m.lastReset = nil
		text := "brought back " + output.Plural(int(done.Keys), "key")
		if done.Lapsed > 0 {
			text += fmt.Sprintf(", %d expired meanwhile", done.Lapsed)
		}
		m.say(text)
	}
	return tea.Batch(m.feed.Look(), m.feed.LookOverrides())
}

func (done taken) absorb(m *Model) tea.Cmd {
	name := output.Printable(done.key.String())
	switch d := &done.decision; {
	case done.err != nil:
		m.complain(done.err)
	case d.Allowed:
		m.say(fmt.Sprintf("allowed: took 1 of %s, %s remaining", name, output.Thousands(d.Remaining)))
	default:
		m.complain(fmt.Errorf("denied: %s has nothing left, retry in %s", name, output.Duration(d.RetryAfter)))
	}
	return tea.Batch(m.feed.Look(), m.feed.LookOverrides())
}
