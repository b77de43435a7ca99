package dash

import (
	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
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
	lists := []screen{keysScreen, groupsScreen}
	rows := []screen{keysScreen, detailScreen}
	all := []binding{
		bind([]string{"up", "k"}, "↑ k", "up", nil, moves(-1)),
		bind([]string{"down", "j"}, "↓ j", "down", nil, moves(1)),
		bind([]string{"pgup", "ctrl+b"}, "PgUp", "a page up", nil, (*model).pageUp),
		bind([]string{"pgdown", "ctrl+f"}, "PgDn", "a page down", nil, (*model).pageDown),
		bind([]string{"home"}, "Home", "to the first; the cursor stays there", nil, (*model).first),
		bind([]string{"end", "G"}, "End G", "to the last", nil, (*model).last),
		bind([]string{"enter", "l", "right"}, "enter", "everything about a key; the keys of a group", lists, (*model).enter),
		bind([]string{"esc", "backspace", "h", "left"}, "esc", "go back; end the filter", nil, (*model).goBack),
		bind([]string{"/"}, "/", "filter: a part or a glob, !inverted, >80%", lists, (*model).editFilter),
		bind([]string{"s"}, "s", "sort by another column (or click a header)", []screen{keysScreen}, (*model).nextOrder),
		bind([]string{"S"}, "S", "turn the order around", []screen{keysScreen}, (*model).turnOrder),
		bind([]string{"g"}, "g", "group by limit, then by each attribute", lists, (*model).nextGrouping),
		bind([]string{" "}, "space", "pause, and go on", nil, (*model).pause),
		bind([]string{"+", "="}, "+", "refresh more often", nil, (*model).faster),
		bind([]string{"-", "_"}, "-", "refresh less often", nil, (*model).slower),
	}
	if m.Actions != nil && m.Play == nil {
		all = append(all,
			bind([]string{"m"}, "m", "mark a key, or not", []screen{keysScreen}, (*model).mark),
			bind([]string{"r"}, "r", "reset the marked keys, or this one", rows, (*model).askReset),
			bind([]string{"u"}, "u", "undo the last reset", nil, (*model).askUndo),
			bind([]string{"c"}, "c", "consume one unit of this key", rows, (*model).askConsume),
		)
	}
	return append(all,
		bind([]string{"?"}, "?", "this help", nil, (*model).help),
		bind([]string{"ctrl+z"}, "ctrl+z", "suspend", nil, func(*model) tea.Cmd { return tea.Suspend }),
		bind([]string{"q"}, "q", "leave", nil, func(*model) tea.Cmd { return tea.Quit }),
	)
}

func (b *binding) isOn(s screen) bool {
	if b.on == nil {
		return true
	}
	for _, on := range b.on {
		if on == s {
			return true
		}
	}
	return false
}

// press does what a key is for.
func (m *model) press(msg tea.KeyMsg) tea.Cmd {
	if msg.Type == tea.KeyCtrlC {
		m.interrupted = true
		return tea.Quit
	}
	switch {
	case m.question != nil:
		return m.answer(msg)
	case m.filtering:
		return m.typeFilter(msg)
	}
	if msg.Paste { // what was meant for somewhere else
		return nil
	}
	if msg.Type == tea.KeyRunes && len(msg.Runes) > 1 { // several, typed faster than they were read
		var all []tea.Cmd
		for _, typed := range msg.Runes {
			all = append(all, m.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{typed}}))
		}
		return tea.Batch(all...)
	}
	for _, b := range m.bindings() {
		if key.Matches(msg, b.Binding) && b.isOn(m.screen) {
			return b.do(m)
		}
	}
	return nil
}

func moves(by int) func(*model) tea.Cmd {
	return func(m *model) tea.Cmd { return m.move(by) }
}

func (m *model) move(by int) tea.Cmd {
	switch m.screen {
	case keysScreen:
		m.moveTo(m.cursor+by, true)
	case groupsScreen:
		m.groupCursor = max(0, min(m.groupCursor+by, len(m.groups)-1))
		m.groupTop = scrolled(m.groupTop, m.groupCursor, len(m.groups), m.listHeight())
	case detailScreen, helpScreen:
		m.scroll = max(0, min(m.scroll+by, len(m.text())-m.bodyHeight()))
	}
	return nil
}

func (m *model) pageUp() tea.Cmd   { return m.move(-max(1, m.listHeight()-1)) }
func (m *model) pageDown() tea.Cmd { return m.move(max(1, m.listHeight()-1)) }

const far = 1 << 30

func (m *model) first() tea.Cmd {
	m.move(-far)
	m.moved = false
	return nil
}

func (m *model) last() tea.Cmd { return m.move(far) }

// show goes to a screen, from which esc leads back.
func (m *model) show(s screen) {
	m.back = append(m.back, m.screen)
	m.screen, m.scroll = s, 0
}

func (m *model) enter() tea.Cmd {
	switch m.screen {
	case groupsScreen:
		if m.groupCursor < len(m.groups) {
			m.within = m.groups[m.groupCursor]
			m.show(keysScreen)
			m.moveTo(0, false)
			m.arrange()
		}
	case keysScreen:
		if r := m.current(); r != nil {
			m.moveTo(m.cursor, true)
			m.detailOf, m.detail = r.Key, nil
			m.show(detailScreen)
			return m.look()
		}
	}
	return nil
}

func (m *model) goBack() tea.Cmd {
	switch {
	case (m.screen == keysScreen || m.screen == groupsScreen) && m.filter.text != "":
		m.filter = filter{}
	case len(m.back) > 0:
		if m.screen == keysScreen {
			m.within = nil
		}
		m.screen, m.scroll = m.back[len(m.back)-1], 0
		m.back = m.back[:len(m.back)-1]
	case len(m.marked) > 0:
		clear(m.marked)
	}
	m.arrange()
	return nil
}

func (m *model) help() tea.Cmd {
	if m.screen == helpScreen {
		return m.goBack()
	}
	m.show(helpScreen)
	return nil
}

func (m *model) nextOrder() tea.Cmd { return m.sortBy((m.order + 1) % orders) }

func (m *model) turnOrder() tea.Cmd {
	m.reversed = !m.reversed
	m.arrange()
	return nil
}

func (m *model) sortBy(o order) tea.Cmd {
	m.order, m.reversed = o, false
	m.arrange()
	m.say("sorted by " + o.String())
	return nil
}

// nextGrouping shows groups, each time by something else, and then keys again.
func (m *model) nextGrouping() tea.Cmd {
	if m.screen == keysScreen {
		m.within = nil
		m.by, m.groupCursor, m.groupTop = groupings()[0], 0, 0
		m.back = nil
		m.show(groupsScreen)
		m.arrange()
		return nil
	}
	names := append([]string{""}, m.attributes()...)
	for i, name := range names {
		if name == m.by.attribute && i+1 < len(names) {
			m.by, m.groupCursor, m.groupTop = grouping{names[i+1]}, 0, 0
			m.arrange()
			return nil
		}
	}
	m.back, m.screen = nil, keysScreen
	m.arrange()
	return nil
}

func (m *model) pause() tea.Cmd {
	if m.paused = !m.paused; m.paused {
		return nil
	}
	return m.look()
}

func (m *model) faster() tea.Cmd { return m.refreshEvery(-1) }
func (m *model) slower() tea.Cmd { return m.refreshEvery(1) }

// refreshEvery changes the interval by so many steps.
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

func (m *model) mark() tea.Cmd {
	if r := m.current(); r != nil {
		if m.marked[r.Key] {
			delete(m.marked, r.Key)
		} else {
			m.marked[r.Key] = true
		}
		m.moveTo(m.cursor+1, true)
	}
	return nil
}

// editFilter lets one type a filter, which counts as it is typed.
func (m *model) editFilter() tea.Cmd {
	m.filtering, m.before = true, m.filter.text
	m.input.SetValue(m.filter.text)
	m.input.CursorEnd()
	m.input.Focus()
	return nil
}

func (m *model) typeFilter(msg tea.KeyMsg) tea.Cmd {
	switch msg.Type {
	case tea.KeyEnter:
		m.filtering = false
		m.input.Blur()
		return nil
	case tea.KeyEsc:
		m.filtering = false
		m.input.Blur()
		m.useFilter(m.before)
		return nil
	case tea.KeyUp:
		return m.move(-1)
	case tea.KeyDown:
		return m.move(1)
	}
	m.input, _ = m.input.Update(msg)
	m.useFilter(m.input.Value())
	return nil
}

// useFilter applies a filter. One that is not complete yet leaves the last as it is.
func (m *model) useFilter(text string) {
	f, err := parseFilter(text)
	if err != nil {
		m.complain(err)
		return
	}
	m.note = note{}
	m.filter = f
	m.arrange()
}
