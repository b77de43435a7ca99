package dash

import (
	"fmt"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/textcut"
)

// filterLine is the filter of the lists, and the line that it is typed in.
type filterLine struct {
	followed.Filter
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// newInput returns a line to type in that needs nothing but keys.
func newInput() textinput.Model {
	input := textinput.New()
	input.Cursor.SetMode(cursor.CursorStatic)
	input.KeyMap.Paste.SetEnabled(false) // terminals paste by themselves
	return input
}

// editFilter lets one type a filter, which applies while it is typed.
func (m *model) editFilter() tea.Cmd {
	f := &m.filter
	f.editing, f.before = true, f.Text
	f.input.SetValue(f.Text)
	f.input.CursorEnd()
	f.input.Focus()
	return nil
}

func (m *model) typeFilter(msg tea.KeyMsg) tea.Cmd {
	f := &m.filter
	switch msg.Type {
	case tea.KeyEnter:
		f.editing = false
		f.input.Blur()
		return m.searchStore()
	case tea.KeyEsc:
		f.editing = false
		f.input.Blur()
		m.useFilter(f.before)
		return nil
	case tea.KeyUp:
		return m.move(-1)
	case tea.KeyDown:
		return m.move(1)
	}
	f.input, _ = f.input.Update(msg)
	m.useFilter(f.input.Value())
	return nil
}

// useFilter applies a filter. A filter that cannot be read leaves the last one as it is.
func (m *model) useFilter(text string) {
	parsed, err := followed.ParseFilter(text)
	if err != nil {
		m.complain(err)
		return
	}
	m.note = note{}
	m.filter.Filter = parsed
	m.arrange()
}

// search is what the scan that is going on, or was the last, found of a filter.
type search struct {
	text            string // the filter's; empty if there was none
	followed, found int64  // the followed keys that it keeps, when the scan began, and those found since then
	whole           bool   // the scan is over
}

// searchStore looks for the keys of the filter in the whole store, at once, unless all its keys are followed.
func (m *model) searchStore() tea.Cmd {
	isAll := !m.feed.coverage.Full && len(m.feed.rows) < m.MaxKeys
	if isAll || m.paused || m.feed.pass == 0 || m.filter.Text == "" || m.filter.Text == m.feed.search.text {
		return nil
	}
	m.feed.stopScan()
	return m.scan()
}

// filterLines say what is not listed, and how that ends: a list never leaves out keys in silence.
func (m *model) filterLines() []line {
	if m.screen != &m.groups && !m.listsKeys() || m.filter.Text == "" && (!m.listsKeys() || m.keys.within == nil) {
		return nil
	}
	name, ends := "", "; esc goes back"
	if group := m.keys.within; m.listsKeys() && group != nil {
		name = group.by.String() + " " + group.title()
	}
	if m.filter.Text != "" {
		if name != "" {
			name += ", "
		}
		name, ends = name+"filter /"+m.filter.Text, "; esc ends it"
	}
	counts := ": " + output.Thousands(int64(len(m.keys.rows))) + " of " + output.Thousands(int64(len(m.feed.rows)))
	if m.feed.coverage.Full {
		counts += " followed"
	}
	if store := m.foundText(); store != "" {
		counts = ": " + store + ", " + output.Thousands(int64(len(m.keys.rows))) + " followed"
	}
	room := max(8, m.width-width(counts)-width(ends))
	return []line{{{cutMiddle(name, room), bold}, {counts, output.Plain}, {ends, output.Faint}}}
}

// foundText says how many keys of the store the filter keeps, as far as that is known; empty if all keys are followed.
func (m *model) foundText() string {
	s, c := &m.feed.search, &m.feed.coverage
	switch {
	case m.keys.within != nil || m.filter.Text == "" || !c.Full && len(m.feed.rows) < m.MaxKeys || m.Play != nil || m.Query.Keys != nil:
		return ""
	case s.text != m.filter.Text:
		return "not counted in the store yet"
	}
	n := output.Thousands(max(s.followed+s.found, int64(len(m.keys.rows))))
	if s.whole {
		return n + " in the store"
	}
	return fmt.Sprintf("≥%s in the store (%d%% scanned)", n, min(99, 100*c.Looked/max(1, c.Total)))
}

// cutMiddle cuts a text to a width where it is least missed.
func cutMiddle(text string, columns int) string {
	text = output.Escape(text)
	if output.Width(text) <= columns {
		return text
	}
	_, cut := textcut.Distinct([]string{text}, columns)
	return cut[0]
}
