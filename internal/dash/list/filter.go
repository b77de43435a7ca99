package list

import (
	"fmt"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
)

// filterLine is the line that the filter is typed in.
type filterLine struct {
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// edit lets one type a filter, which applies while it is typed.
func (m *Model) edit() tea.Cmd {
	f := &m.filter
	f.editing, f.before = true, m.feed.Filter.Text
	f.input.SetValue(f.before)
	f.input.CursorEnd()
	f.input.Focus()
	return nil
}

// Foot is what is typed now.
func (m *Model) Foot() string {
	return m.theme.Bold.Of("filter: ") + m.theme.Typed(&m.filter.input)
}

func (m *Model) typed(msg tea.KeyMsg) tea.Cmd {
	f := &m.filter
	switch msg.Type {
	case tea.KeyEnter:
		f.editing = false
		return m.feed.SearchStore()
	case tea.KeyEsc:
		f.editing = false
		m.use(f.before)
	case tea.KeyUp:
		m.Move(-1)
	case tea.KeyDown:
		m.Move(1)
	default:
		f.input, _ = f.input.Update(msg)
		m.use(f.input.Value())
	}
	return nil
}

// use applies a filter. One that cannot be read leaves the last one as it is.
func (m *Model) use(text string) {
	parsed, err := live.ParseFilter(text)
	if err != nil {
		m.note.Complain(m.feed.Clock, err)
		return
	}
	*m.note = ui.Note{}
	m.feed.Filter = parsed
	m.feed.Arrange()
}

// EndFilter ends the filter, and reports whether there was one.
func (m *Model) EndFilter() bool {
	was := m.feed.Filter.Text != ""
	m.feed.Filter = live.Filter{}
	return was
}

// filterText says what is not listed, and how that ends: a list never leaves out keys in silence.
func (m *Model) filterText(width int) string {
	f := m.feed
	name, ends := "filter /"+f.Filter.Text, "; esc ends it"
	counts := ": " + output.Thousands(int64(len(f.Listed))) + " of " + output.Thousands(int64(len(f.Rows)))
	if f.Coverage.Full {
		counts += " followed"
	}
	if !f.FollowsAll() {
		counts = ": " + m.found() + ", " + output.Thousands(int64(len(f.Listed))) + " followed"
	}
	const leastName = 12
	if width-ui.Width(counts)-len(ends) < min(leastName, ui.TextWidth(name)) {
		ends = ""
	}
	room := max(8, width-ui.Width(counts)-len(ends))
	return ui.Fit(m.theme.Bold.Of(ui.CutMiddle(name, room))+m.theme.Plain.Of(counts)+m.theme.Faint.Of(ends), width)
}

// found says how many keys of the store the filter keeps, as far as that is known.
func (m *Model) found() string {
	s, c := &m.feed.Search, &m.feed.Coverage
	if s.Text != m.feed.Filter.Text {
		return "not counted in the store yet"
	}
	n := output.Thousands(max(s.Found(), int64(len(m.feed.Listed))))
	if s.Whole {
		return n + " in the store"
	}
	return fmt.Sprintf("≥%s in the store (%d%% scanned)", n, min(99, 100*c.Looked/max(1, c.Total)))
}
