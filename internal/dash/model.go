package dash

import (
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/change"
	"github.com/limitctl/limitctl/internal/dash/detail"
	"github.com/limitctl/limitctl/internal/dash/inforce"
	"github.com/limitctl/limitctl/internal/dash/list"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// screen is one of the views between the head and the foot.
type screen interface {
	// Bindings are the keys that only this screen has.
	Bindings() []ui.Binding
	// View draws the screen in so many columns and lines.
	View(width, height int) string
	// Move moves the cursor or the text by that many lines, down if it is positive.
	Move(by int)
	// Page is how many lines are in sight.
	Page() int
}

// model is the dashboard: its screens, and what is around them. Only Update changes it, and only View draws it.
type model struct {
	feed   *live.Feed
	theme  *ui.Theme
	note   ui.Note
	change *change.Model

	list    *list.Model
	detail  *detail.Model
	inForce *inforce.Model
	help    *ui.Text
	screen  screen
	back    []screen // where esc goes to

	width, height int
	interrupted   bool // by Ctrl-C
}

func newModel(ctx context.Context, o live.Options, theme *ui.Theme) *model {
	m := &model{feed: live.New(ctx, o), theme: theme, width: 80, height: 24}
	m.list = list.New(m.feed, theme, &m.note)
	m.detail, m.inForce, m.help = detail.New(m.feed, theme), inforce.New(m.feed, theme), &ui.Text{Lines: m.helpLines}
	m.change = change.New(ctx, m.feed, theme, &m.note)
	m.screen = m.list
	m.list.Open = func() tea.Cmd {
		m.detail.Of = m.list.Current().Key
		m.show(m.detail)
		m.detail.Move(ui.Home)
		return nil
	}
	if o.Actions != nil {
		m.inForce.Revoke = m.change.Revoke
	}
	m.change.Current = func() *live.Row {
		if m.screen == m.detail {
			return m.feed.Rows[m.detail.Of]
		}
		return m.list.Meant()
	}
	m.feed.Pinned = func(key store.Key) bool { return m.list.Pins(key) || m.screen == m.detail && m.detail.Of == key }
	return m
}

// clockTick moves the clock on, also while the store does not answer.
type clockTick struct{}

func (m *model) clock() tea.Cmd { return m.feed.After(time.Second, clockTick{}) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.feed.Init(), m.clock()) }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		cmd = m.press(msg)
	case clockTick:
		m.feed.Clock = m.feed.Now()
		m.note.Expire(m.feed.Clock)
		cmd = m.clock()
	default:
		cmd = tea.Batch(m.feed.Update(msg), m.change.Update(msg))
	}
	_, pressed := msg.(tea.KeyMsg)
	m.list.Took(pressed)
	return m, cmd
}

func (m *model) press(msg tea.KeyMsg) tea.Cmd {
	_, typing := m.list.Typed()
	switch {
	case msg.Type == tea.KeyCtrlC:
		m.interrupted = true
		return tea.Quit
	case m.change.IsAsking():
		return m.change.Update(msg)
	case typing:
		return m.list.Type(msg)
	case msg.Paste: // it was meant for another program
		return nil
	case msg.Type == tea.KeyRunes && len(msg.Runes) > 1: // keys that were typed faster than they were read
		var all []tea.Cmd
		for _, typed := range msg.Runes {
			all = append(all, m.press(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{typed}}))
		}
		return tea.Batch(all...)
	}
	return ui.Press(m.bindings(), msg)
}

func (m *model) bindings() []ui.Binding { return append(m.acts(), m.everywhere()...) }

func (m *model) acts() []ui.Binding {
	all := m.screen.Bindings()
	if m.screen == m.list || m.screen == m.detail {
		all = slices.Insert(all, min(2, len(all)), m.change.Bindings()...) // in the order in which they are wanted
	}
	return all
}

func (m *model) everywhere() []ui.Binding {
	all := []ui.Binding{ui.Bind("esc", "back, end the filter", m.goBack, "esc", "backspace", "h", "left"),
		ui.Bind("O", "what is in force", m.toggleInForce, "O")}
	if m.feed.Actions != nil {
		all = append(all, m.change.Undo())
	}
	move := func(by int) func() tea.Cmd { return func() tea.Cmd { m.screen.Move(by); return nil } }
	page := max(1, m.screen.Page()-1)
	return append(all,
		ui.Bind("↑ k", "up", move(-1), "up", "k"),
		ui.Bind("↓ j", "down", move(1), "down", "j"),
		ui.Bind("PgUp", "a page up", move(-page), "pgup", "ctrl+b"),
		ui.Bind("PgDn", "a page down", move(page), "pgdown", "ctrl+f"),
		ui.Bind("Home g", "to the first", move(ui.Home), "home", "g"),
		ui.Bind("End G", "to the last", move(ui.End), "end", "G"),
		ui.Bind("?", "help", m.toggleHelp, "?"),
		ui.Bind("ctrl+z", "suspend", func() tea.Cmd { return tea.Suspend }, "ctrl+z"),
		ui.Bind("q", "quit", func() tea.Cmd { return tea.Quit }, "q"))
}

func (m *model) show(s screen) {
	m.back = append(m.back, m.screen)
	m.screen = s
}

func (m *model) goBack() tea.Cmd {
	switch last := len(m.back) - 1; {
	case m.screen == m.list && m.list.EndFilter():
	case last >= 0:
		m.screen, m.back = m.back[last], m.back[:last]
	}
	m.feed.Arrange()
	return nil
}

func (m *model) toggleInForce() tea.Cmd {
	switch {
	case m.screen == m.inForce:
		return m.goBack()
	case !m.feed.Overrides.Kept():
		m.note.Say(m.feed.Clock, "this store keeps no overrides")
	default:
		m.show(m.inForce)
		m.inForce.Follow()
	}
	return nil
}

func (m *model) toggleHelp() tea.Cmd {
	if m.screen == m.help {
		return m.goBack()
	}
	m.show(m.help)
	m.help.Move(ui.Home)
	return nil
}
