package dash

import (
	"fmt"
	"io"
	"slices"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// changes are what is asked for, and was done, to keys from here.
type changes struct {
	question  *question
	form      *form    // where an override is typed in; nil if it is not open
	lastReset *Changed // what u undoes; nil if there is nothing to undo
	lastKeys  []ID     // those of lastReset
	acting    bool     // an action is under way
	// lastCommand is the command that was copied last.
	lastCommand string
	working     panics.Group // runs the actions
}

// act does what was asked for, outside the loop. The dashboard ends only after it is done.
func (m *model) act(do func() tea.Msg) tea.Cmd {
	m.changes.acting = true
	done := make(chan tea.Msg, 1)
	m.changes.working.Go(func() {
		var msg tea.Msg
		if err := panics.Call(func() error { msg = do(); return nil }); err != nil {
			msg = actionFailed{err}
		}
		done <- msg
	})
	return func() tea.Msg { return <-done }
}

// Messages of what was done.
type (
	resetDone struct {
		Changed
		keys []ID
		err  error
	}
	actionFailed struct{ err error }
	undoDone     struct {
		Changed
		err error
	}
	taken struct {
		key      store.Key
		decision store.Decision
		err      error
	}
)

// questionBorder is how many columns are beside the text of a question.
const questionBorder = 4

// shownKeys is how many of the keys that are to be changed are named.
const shownKeys = 5

func (m *model) askReset() tea.Cmd {
	keys := m.chosen()
	if hidden := m.hiddenMarks(); len(keys) == 0 && hidden > 0 {
		m.say(fmt.Sprintf("%s marked, but not listed now; esc ends the filter", areKeys(hidden)))
	}
	if len(keys) == 0 || m.isBusy() {
		return nil
	}
	var lines []string
	for _, key := range keys[:min(len(keys), shownKeys)] {
		used := ""
		if r := m.feed.rows[key]; r != nil && r.Found() {
			used = fmt.Sprintf("  %s used", usedOf(r))
		}
		lines = append(lines, output.Printable(key.String())+used)
	}
	if more := len(keys) - shownKeys; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	if hidden := m.hiddenMarks(); hidden > 0 {
		lines = append(lines, "", fmt.Sprintf("%s marked too, but not listed now. They are left as they are.", areKeys(hidden)))
	}
	lines = append(lines, "", "They are kept in a backup. Press u to bring them back.")
	for _, text := range m.beyond(keys) {
		lines = append(lines, output.Wrap(text, max(20, m.width-questionBorder))...)
	}
	return m.ask("Delete "+output.Plural(len(keys), "key"), lines, func() tea.Msg {
		done, err := m.Actions.Reset(m.ctx, keys)
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

// isBusy says so if something is being done already.
func (m *model) isBusy() bool {
	if m.changes.acting {
		m.say("wait until the last action is done")
	}
	return m.changes.acting
}

func (m *model) askUndo() tea.Cmd {
	if m.isBusy() {
		return nil
	}
	if m.changes.lastReset == nil {
		m.say("nothing was reset from here yet")
		return nil
	}
	reset, replace := *m.changes.lastReset, m.changes.lastReset.InUse > 0
	// lastKeys are those of the reset that is undone, and not those chosen last.
	var lines []string
	for _, key := range m.changes.lastKeys[:min(len(m.changes.lastKeys), shownKeys)] {
		lines = append(lines, output.Printable(key.String()))
	}
	if more := len(m.changes.lastKeys) - shownKeys; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	expiry := "They keep their original expiry."
	title := "Bring back " + output.Plural(int(reset.Keys), "key")
	if replace {
		title = fmt.Sprintf("Bring back %s used since, too", output.Plural(int(reset.InUse), "key"))
		expiry = "What was used since the reset is lost."
	}
	lines = append(lines, expiry, "Backup: "+reset.Backup)
	return m.ask(title, lines, func() tea.Msg {
		done, err := m.Actions.Undo(m.ctx, reset, replace)
		return undoDone{done, err}
	})
}

func (m *model) askTake() tea.Cmd {
	r := m.current()
	if r == nil || !r.Found() || m.isBusy() {
		return nil
	}
	if !r.LimitKnown() {
		m.say("the limit of " + output.Printable(r.Key.String()) + " is not known, so nothing can be taken")
		return nil
	}
	if o := r.Override; isBlock(o) {
		m.complain(fmt.Errorf("denied: %s is blocked until %s", output.Printable(r.Key.String()), until(o.ExpiresAt, m.now)))
		return nil
	}
	req := store.Request{Key: r.Key, Limit: r.Limit, Cost: 1}
	do := func() tea.Msg {
		var decision [1]store.Decision
		err := m.Store.Decide(m.ctx, store.Take, []store.Request{req}, decision[:])
		return taken{req.Key, decision[0], err}
	}
	if !m.Protected {
		return m.act(do)
	}
	return m.ask("Take one unit", []string{output.Printable(r.Key.String())}, do)
}

// absorbReset, absorbUndo and absorbTaken say what an action did, and read the keys
// again at once.
func (m *model) absorbReset(done resetDone) tea.Cmd {
	m.changes.acting = false
	for _, key := range done.keys {
		if r := m.feed.rows[key]; r != nil {
			r.Hold(m.now.Add(noteStays))
		}
	}
	if done.Backup != "" {
		m.changes.lastReset, m.changes.lastKeys = &done.Changed, done.keys
	}
	switch {
	case done.err != nil && done.Backup != "": // the end of a long line is cut, so the facts come first
		m.complain(fmt.Errorf("only %s certainly deleted; u brings them back: %w", output.Plural(int(done.Keys), "key"), done.err))
	case done.err != nil:
		m.complain(done.err)
	case done.Keys == 0:
		m.say("none of it was in use, so nothing was deleted")
		m.unmark(done.keys)
	default:
		m.say(fmt.Sprintf("deleted %s; u brings back what was in use", output.Plural(int(done.Keys), "key")))
		m.unmark(done.keys)
	}
	return m.look()
}

func (m *model) unmark(keys []ID) {
	for _, key := range keys {
		delete(m.keys.marked, key)
	}
}

func (m *model) absorbUndo(done undoDone) tea.Cmd {
	m.changes.acting = false
	switch {
	case done.err != nil:
		m.complain(done.err)
	case done.InUse > 0:
		m.changes.lastReset.InUse = done.InUse
		m.say(fmt.Sprintf("brought back %s; %d used since and left, u brings these back, too",
			output.Plural(int(done.Keys), "key"), done.InUse))
	default:
		m.changes.lastReset = nil
		text := "brought back " + output.Plural(int(done.Keys), "key")
		if done.Lapsed > 0 {
			text += fmt.Sprintf(", %d expired meanwhile", done.Lapsed)
		}
		m.say(text)
	}
	return m.look()
}

func (m *model) absorbTaken(done taken) tea.Cmd {
	m.changes.acting = false
	name := output.Printable(done.key.String())
	switch d := &done.decision; {
	case done.err != nil:
		m.complain(done.err)
	case d.Allowed:
		m.say(fmt.Sprintf("allowed: took 1 of %s, %s remaining", name, output.Thousands(d.Remaining)))
	default:
		m.complain(fmt.Errorf("denied: %s has nothing left, retry in %s", name, output.Duration(d.RetryAfter)))
	}
	return m.look()
}

// question is asked before something is changed.
type question struct {
	title string
	lines []string
	// name has to be typed for a yes, in input. It is empty where a key is enough.
	name  string
	input textinput.Model
	do    func() tea.Msg // what a yes does; nil if nothing is asked
}

// ask asks before do is done. In a protected context the context's name has to be typed.
func (m *model) ask(title string, lines []string, do func() tea.Msg) tea.Cmd {
	q := &question{title: title, lines: lines, do: do}
	m.changes.question = q
	if m.Protected {
		q.name, q.input = m.Context, newInput()
		q.input.Focus()
	}
	return nil
}

// answer takes a key that is pressed at a question. Anything but a clear yes is a no.
func (m *model) answer(msg tea.KeyMsg) tea.Cmd {
	q := m.changes.question
	pressed := msg.String()
	switch {
	case q.do == nil: // it only says something
		m.changes.question = nil
		return nil
	case q.name == "" && (pressed == "y" || pressed == "Y"):
	case q.name != "" && msg.Type == tea.KeyEnter && q.input.Value() == q.name:
	case q.name != "" && msg.Type != tea.KeyEnter && msg.Type != tea.KeyEsc:
		q.input, _ = q.input.Update(msg)
		return nil
	default:
		m.changes.question = nil
		m.say("nothing was changed")
		return nil
	}
	m.changes.question = nil
	return m.act(q.do)
}

// box draws the question in at most that many lines and columns.
func (q *question) box(height, columns int) []line {
	answers := []line{{{"y", bold}, {" yes   ", output.Plain}, {"any other key", bold}, {" no", output.Plain}}}
	if q.do == nil {
		answers = []line{{{"any key", bold}, {" back", output.Plain}}}
	}
	if q.name != "" {
		answers = []line{
			styled(q.name+" is protected. Type its name to go on:", output.Near),
			{{q.input.Value(), bold}, {"▏", output.Plain}},
		}
	}
	const frame = 2 // the lines of the border
	room := height - frame - 1 - len(answers)
	title := q.title + "?"
	if q.do == nil {
		title = q.title
	}
	lines := []line{styled(title, bold)}
	if room >= len(q.lines)+2 {
		lines, answers = append(lines, nil), append([]line{nil}, answers...)
	}
	for _, text := range q.lines[:max(0, min(len(q.lines), room))] {
		lines = append(lines, plain(text))
	}
	return boxed(append(lines, answers...), columns)
}

// copySubject copies the subject of the current key.
func (m *model) copySubject() tea.Cmd {
	r := m.current()
	if r == nil {
		return nil
	}
	return m.copyText(r.Key.Subject, "")
}

// copyCommand copies a command about the current key, and the next one when it is pressed again.
func (m *model) copyCommand() tea.Cmd {
	r := m.current()
	if r == nil || m.Commands == nil {
		return nil
	}
	all := m.Commands(&r.Entry)
	if len(all) == 0 {
		m.say("no command is about this key alone; c copies its subject")
		return nil
	}
	next := (slices.Index(all, m.changes.lastCommand) + 1) % len(all)
	m.changes.lastCommand = all[next]
	hint := ""
	if len(all) > 1 {
		hint = " (y again: the next)"
	}
	return m.copyText(all[next], hint)
}

// copyText gives a text to the terminal, which puts it where texts are pasted from (OSC 52). A subject has at most 1,024
// bytes, and the text goes as base64, so it does nothing else to the terminal, whatever it holds.
func (m *model) copyText(text, hint string) tea.Cmd {
	if m.clipboard == nil {
		return nil
	}
	tmux, to := m.Tmux, m.clipboard
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

func (m *model) absorbCopied(msg copied) {
	if msg.err != nil {
		m.complain(msg.err)
		return
	}
	m.say("copied" + msg.hint + " " + output.Printable(msg.text))
}
