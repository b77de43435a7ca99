// Package list is the dashboard's screen of all keys, with the filter and what denied keys have in common.
package list

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Model is the screen.
type Model struct {
	feed  *live.Feed
	theme *ui.Theme
	note  *ui.Note
	// Still: one frame is written, and nobody presses keys.
	Still bool
	// Open shows everything about the key under the cursor.
	Open func() tea.Cmd

	ui.Table
	selected store.Key
	moved    bool            // the cursor stays with the selected key
	replaced time.Time       // when another key came under the cursor by itself; zero if it was moved there
	causes   []live.Offender // that w goes through, the next one first
	// Of the line that a filter is typed in:
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// New returns the screen of a feed.
func New(feed *live.Feed, theme *ui.Theme, note *ui.Note) *Model {
	return &Model{feed: feed, theme: theme, note: note, input: ui.NewInput()}
}

// Bindings are the keys of the screen, the most wanted first.
func (m *Model) Bindings() []ui.Binding {
	return []ui.Binding{
		ui.Bind("enter", "detail", m.enter, "enter", "l", "right"),
		ui.Bind("/", "filter", m.edit, "/"),
		ui.Bind("s", "sort", m.sort, "s"),
		ui.Bind("w", "why: only these", m.why, "w"),
	}
}

// Typed is what is typed into the filter now. is is false if nothing is.
func (m *Model) Typed() (line string, is bool) {
	return m.theme.Bold.Of("filter: ") + m.theme.Typed(&m.input), m.editing
}

// EndFilter ends the filter, and reports whether there was one.
func (m *Model) EndFilter() bool {
	was := m.feed.Filter.Text != ""
	m.feed.Filter = live.Filter{}
	return was
}

// Current is the row under the cursor, nil if there is none.
func (m *Model) Current() *live.Row {
	if m.Cursor < len(m.feed.Listed) {
		return m.feed.Listed[m.Cursor]
	}
	return nil
}

// Meant is the row under the cursor. Of one that has just come there by itself that is said first: nobody has read it.
func (m *Model) Meant() *live.Row {
	const unread = 5 * time.Second
	r := m.Current()
	if r == nil || m.feed.Clock.Sub(m.replaced) >= unread {
		return r
	}
	m.moved = true
	m.note.Say(m.feed.Clock, "the cursor has just come to "+output.Printable(r.Key.String())+": press again")
	return nil
}

// Pins reports whether somebody works with a key here.
func (m *Model) Pins(key store.Key) bool { return m.moved && key == m.selected }

// Took follows a message: a key of the terminal, or what the store said, which can put another key under the cursor.
func (m *Model) Took(pressed bool) {
	before := m.selected
	m.Follow()
	if pressed {
		m.replaced = time.Time{}
	} else if before != m.selected && before != (store.Key{}) {
		m.replaced = m.feed.Clock
	}
}

// Follow keeps the cursor with its key, and in sight.
func (m *Model) Follow() {
	if m.moved {
		if i := slices.IndexFunc(m.feed.Listed, func(r *live.Row) bool { return r.Key == m.selected }); i >= 0 {
			m.Cursor = i
		}
	}
	m.Table.Move(0, len(m.feed.Listed))
	if r := m.Current(); r != nil {
		m.selected = r.Key
	}
}

// Move moves the cursor by that many rows, and stays with the key that is there; [ui.Home] stays with the first row.
func (m *Model) Move(by int) {
	m.moved = false
	m.Cursor += by
	m.Follow()
	m.moved = by != ui.Home
}

func (m *Model) enter() tea.Cmd {
	if m.Current() == nil {
		return nil
	}
	m.moved = true
	return m.Open()
}

// why lists only the keys of the first cause, and when it is pressed again those of the next one.
func (m *Model) why() tea.Cmd {
	if m.feed.Filter.Text == "" {
		m.causes = slices.Clone(m.feed.Offenders)
	}
	if len(m.causes) == 0 {
		return nil
	}
	m.feed.Filter = m.causes[0].Filter()
	m.causes = append(m.causes[1:], m.causes[0])
	m.feed.Arrange()
	return nil
}

func (m *Model) sort() tea.Cmd {
	m.feed.Order = (m.feed.Order + 1) % live.Orders
	m.feed.Arrange()
	return nil
}

// View draws the screen in so many columns and lines.
func (m *Model) View(width, height int) string {
	lines := m.above(width)
	m.Height = max(1, height-len(lines)-1)
	m.Follow()
	lines = append(lines, m.rows(m.feed.Listed[m.Top:min(m.Top+m.Height, len(m.feed.Listed))], width)...)
	if len(m.feed.Listed) == 0 {
		lines = append(lines, "  "+m.theme.Plain.Of(m.nothing()))
	}
	return ui.Join(lines)
}

// above are the lines above the table: what began, what denied keys have in common, and the filter.
func (m *Model) above(width int) (lines []string) {
	if text, command, _ := strings.Cut(m.feed.Began, "\n"); text != "" {
		lines = append(lines, ui.Fit(m.theme.Faint.Of("began: ")+m.theme.Plain.Of(text), width))
		// cut it would be another command
		if line := "       " + command; command != "" && ui.TextWidth(line) <= width {
			lines = append(lines, m.theme.Plain.Of(line))
		}
	}
	if len(m.feed.Offenders) > 0 {
		lines = append(lines, m.causesText(width))
	}
	if m.feed.Filter.Text != "" {
		lines = append(lines, m.filterText(width))
	}
	return lines
}

// causesText says what denied keys have in common, and how much of what is denied is of these.
func (m *Model) causesText(width int) string {
	text := m.theme.Faint.Of("why:")
	for i := range m.feed.Offenders {
		o := &m.feed.Offenders[i]
		part := "   " + m.theme.Plain.Of(fmt.Sprintf("%s %s %.0f %%", o.By, output.Printable(o.Name), 100*o.Share))
		if i > 0 && ui.Width(text)+ui.Width(part) > width {
			break
		}
		text += part
	}
	if hint := "   (w: only these)"; !m.Still && ui.Width(text)+len(hint) <= width {
		text += m.theme.Faint.Of(hint)
	}
	return ui.Fit(text, width)
}

func (m *Model) nothing() string {
	switch f := m.feed; {
	case f.Filter.Text != "":
		return "none matches"
	case f.IsScanning():
		return "looking for keys…"
	}
	return "nothing in use matches " + m.feed.Selection
}

// edit lets one type a filter, which applies while it is typed.
func (m *Model) edit() tea.Cmd {
	m.editing, m.before = true, m.feed.Filter.Text
	m.input.SetValue(m.before)
	m.input.CursorEnd()
	m.input.Focus()
	return nil
}

// Type takes a key while a filter is typed.
func (m *Model) Type(msg tea.KeyMsg) tea.Cmd {
	switch msg.Type {
	case tea.KeyEnter:
		m.editing = false
	case tea.KeyEsc:
		m.editing = false
		m.use(m.before)
	default:
		m.input, _ = m.input.Update(msg)
		m.use(m.input.Value())
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

// filterText says what is not listed, and how that ends: a list never leaves out keys in silence.
func (m *Model) filterText(width int) string {
	name, ends := "filter /"+m.feed.Filter.Text, "; esc ends it"
	counts := ": " + output.Thousands(int64(len(m.feed.Listed))) + " of " + output.Thousands(int64(len(m.feed.Rows)))
	if !m.feed.FollowsAll() {
		counts += " followed; `limitctl dashboard PATTERN` looks in the whole store"
	}
	const leastName = 12
	if width-ui.Width(counts)-len(ends) < min(leastName, ui.TextWidth(name)) {
		ends = ""
	}
	room := max(8, width-ui.Width(counts)-len(ends))
	return ui.Fit(m.theme.Bold.Of(ui.CutMiddle(name, room))+m.theme.Plain.Of(counts)+m.theme.Faint.Of(ends), width)
}
