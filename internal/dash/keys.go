package dash

import (
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/help"
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
)

// binding is what a key does, and where. The help shows the same table.
type binding struct {
	key.Binding
	on []screen // nil: on all
	do func(*model) tea.Cmd
}

func bind(names []string, label, help string, on []screen, do func(*model) tea.Cmd) binding {
	return binding{key.NewBinding(key.WithKeys(names...), key.WithHelp(label, help)), on, do}
}

// bindings are the keys that do something in this dashboard, the most wanted first.
func (m *model) bindings() []binding {
	list, rows := []screen{&m.keys}, []screen{&m.keys, &m.detail}
	all := []binding{
		bind([]string{"up", "k"}, "↑ k", "up", nil, moves(-1)),
		bind([]string{"down", "j"}, "↓ j", "down", nil, moves(1)),
		bind([]string{"pgup", "ctrl+b"}, "PgUp", "a page up", nil, (*model).pageUp),
		bind([]string{"pgdown", "ctrl+f"}, "PgDn", "a page down", nil, (*model).pageDown),
		bind([]string{"home"}, "Home", "to the first", nil, (*model).first),
		bind([]string{"end", "G"}, "End G", "to the last", nil, (*model).last),
		bind([]string{"enter", "l", "right"}, "enter", "all about it; filter by what is in common", []screen{&m.keys, &m.inForce},
			(*model).enter),
		bind([]string{"J", "shift+down"}, "J", "scroll the detail down", []screen{&m.detail}, scrolls(1)),
		bind([]string{"K", "shift+up"}, "K", "scroll the detail up", []screen{&m.detail}, scrolls(-1)),
		bind([]string{"esc", "backspace", "h", "left"}, "esc", "go back; end the filter", nil, (*model).goBack),
		bind([]string{"/"}, "/", "filter: part, glob, !not, >80%", list, (*model).editFilter),
		bind([]string{"s"}, "s", "sort by another column", list, (*model).nextOrder),
		bind([]string{"S"}, "S", "reverse the order", list, (*model).turnOrder),
		bind([]string{"c"}, "c", "copy the subject", rows, (*model).copySubject),
	}
	if !m.isOthers() {
		copies := "copy its check command"
		if m.mayChange() {
			copies = "copy check; again: copy block"
		}
		all = append(all, bind([]string{"y"}, "y", copies, rows, (*model).copyCommand))
	}
	all = append(all,
		bind([]string{" "}, "space", "pause or go on", nil, (*model).pause),
		bind([]string{"+", "="}, "+", "refresh more often", nil, (*model).faster),
		bind([]string{"-", "_"}, "-", "refresh less often", nil, (*model).slower))
	if !m.isOthers() {
		all = append(all, bind([]string{"O"}, "O", "what is in force", nil, (*model).toggleInForce),
			bind([]string{"r"}, "O r", "revoke that override", []screen{&m.inForce}, (*model).revokeInForce),
			bind([]string{"e"}, "O e", "extend that override", []screen{&m.inForce}, (*model).extendInForce))
	}
	if !m.mayChange() {
		return append(all, m.lastBindings()...)
	}
	all = append(all,
		bind([]string{"m"}, "m", "mark or unmark a key", list, (*model).mark),
		bind([]string{"r"}, "r", "reset the marked keys or this", rows, (*model).askReset))
	undo := bind([]string{"u"}, "u", "undo the last reset", nil, (*model).askUndo)
	if m.isOthers() {
		why := bind([]string{"o", "t"}, "o t", "why there are none here", rows, (*model).sayWhoDecides)
		all = append(all, undo, why)
	} else {
		all = append(all,
			bind([]string{"o"}, "o", "override the limit for a while", rows, (*model).askOverride),
			bind([]string{"b"}, "b", "block it, or a pattern", rows, (*model).askBlock),
			bind([]string{"e"}, "e", "exempt it, or a pattern", rows, (*model).askExempt), undo,
			bind([]string{"t"}, "t", "take one unit of it", rows, (*model).askTake))
	}
	return append(all, m.lastBindings()...)
}

// sayWhoDecides says why only a reset can be done to these keys.
func (m *model) sayWhoDecides() tea.Cmd {
	m.say(onlyTheLimiterDecides)
	return nil
}

// lastBindings are those that the help shows last.
func (m *model) lastBindings() []binding {
	return []binding{
		bind([]string{"?"}, "?", "this help", nil, (*model).toggleHelp),
		bind([]string{"ctrl+z"}, "ctrl+z", "suspend", nil, func(*model) tea.Cmd { return tea.Suspend }),
		bind([]string{"q"}, "q", "leave", nil, func(*model) tea.Cmd { return tea.Quit }),
	}
}

func (b *binding) isOn(s screen) bool {
	return b.on == nil || slices.Contains(b.on, s)
}

// press does what is bound to a key.
func (m *model) press(msg tea.KeyMsg) tea.Cmd {
	if msg.Type == tea.KeyCtrlC {
		m.interrupted = true
		return tea.Quit
	}
	switch {
	case m.changes.question != nil:
		return m.answer(msg)
	case m.changes.form != nil:
		return m.fill(msg)
	case m.filter.editing:
		return m.typeFilter(msg)
	}
	if msg.Paste { // a paste was meant for another program
		return nil
	}
	if msg.Type == tea.KeyRunes && len(msg.Runes) > 1 { // keys that were typed faster than they were read
		var all []tea.Cmd
		for _, typed := range msg.Runes {
			all = append(all, m.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{typed}}))
		}
		return tea.Batch(all...)
	}
	for _, b := range m.bindings() {
		if key.Matches(msg, b.Binding) && (b.isOn(m.screen) || m.isBeside() && b.isOn(&m.keys)) {
			return b.do(m)
		}
	}
	return nil
}

func moves(by int) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd { return m.move(by) }
}

func (m *model) move(by int) tea.Cmd {
	m.screen.move(m, by)
	return nil
}

func (m *model) pageUp() tea.Cmd   { return m.move(-max(1, m.listHeight()-1)) }
func (m *model) pageDown() tea.Cmd { return m.move(max(1, m.listHeight()-1)) }

// far is further than any list or text goes.
const far = 1 << 30

func (m *model) first() tea.Cmd {
	m.move(-far)
	m.keys.moved = false
	return nil
}

func (m *model) last() tea.Cmd { return m.move(far) }

func (m *model) enter() tea.Cmd { return m.screen.enter(m) }

// intervals are those that a dashboard can be refreshed at by its keys.
func intervals() []time.Duration {
	return []time.Duration{
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	}
}

// pause stops reading, or goes on.
func (m *model) pause() tea.Cmd {
	f := &m.feed
	if m.paused = !m.paused; m.paused {
		if f.scanning {
			f.stopScan()
			f.pass++ // what it still finds does not count
			f.scanning, f.scanCut = false, true
		}
		return nil
	}
	if f.scanCut {
		f.scanCut = false
		return tea.Batch(m.look(), m.scan())
	}
	return m.look()
}

func (m *model) faster() tea.Cmd { return m.refreshEvery(-1) }
func (m *model) slower() tea.Cmd { return m.refreshEvery(1) }

// refreshEvery changes the interval by that many steps.
func (m *model) refreshEvery(steps int) tea.Cmd {
	all, at := intervals(), 0
	for i, interval := range all {
		if interval <= m.Refresh {
			at = i
		}
	}
	m.Refresh = all[max(0, min(at+steps, len(all)-1))]
	m.ticks++ // the tick that is under way does not count
	return m.look()
}

// helpView is the screen that says what each key does.
type helpView struct{ scroll int }

func (v *helpView) move(m *model, by int) { v.scroll = m.scrollBy(v.scroll, by, v.text(m)) }

func (v *helpView) enter(*model) tea.Cmd { return nil }

func (v *helpView) click(*model, int, int) tea.Cmd { return nil }

func (v *helpView) hints(*model) string { return "esc back" }

func (v *helpView) lines(m *model) []line { return m.textFrom(v.scroll, v.text(m)) }

// toggleHelp shows the help, or goes back from it.
func (m *model) toggleHelp() tea.Cmd {
	if m.screen == &m.help {
		return m.goBack()
	}
	m.show(&m.help)
	return nil
}

func (v *helpView) text(m *model) []line {
	lines := []line{
		{{deniedSign, denying}, {" denied now  ", output.Plain}, {"±", output.Near}, {" override  ", output.Plain},
			{blockSign, output.Near}, {" block  ", output.Plain}, {"∞", output.Near}, {" exempt  ", output.Plain}, {"≥", bold},
			{" at least  ", output.Plain}, {"?", bold}, {" not known", output.Plain}},
		{{"+7s", full}, {" one more unit fits in 7s  ", output.Plain}, {"███░", output.Room}, {" room  ", output.Plain},
			{"███░", output.Near}, {" 80% used  ", output.Plain}, {"████", full}, {" nothing left", output.Plain}},
		nil,
	}
	all := m.bindings()
	keys := make([]key.Binding, len(all))
	for i := range all {
		keys[i] = all[i].Binding
	}
	columns := [][]key.Binding{keys}
	if m.width >= 80 {
		half := (len(keys) + 1) / 2
		columns = [][]key.Binding{keys[:half], keys[half:]}
	}
	widget := help.New() // without styles, as all lines are painted alike
	widget.Styles, widget.FullSeparator = help.Styles{}, "   "
	for text := range strings.SplitSeq(widget.FullHelpView(columns), "\n") {
		lines = append(lines, plain(strings.TrimRight(text, " ")))
	}
	if m.isOthers() {
		lines = append(lines, nil, styled("other limiters", bold), nil,
			line{{"  " + defectSign + "      ", output.AtEnd}, {"a defect that only a reset puts right, such as no expiry", output.Plain}},
			line{{"  " + defectSign + "      ", output.Near}, {"another defect; the page of the key says which (enter)", output.Plain}},
			nil)
		for _, text := range output.Wrap("Keys are read by the layout "+m.Layouts+". "+
			"Another limiter decides by them: they can be reset, and have no overrides, denials or takes here.", m.width) {
			lines = append(lines, plain(text))
		}
	}
	if m.Actions == nil {
		lines = append(lines, nil, plain("The context is read-only: nothing can be changed from here."))
	}
	return lines
}
