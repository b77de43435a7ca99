package list

import (
	"fmt"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
)

// filter is the filter of the list, and the line that it is typed in.
type filter struct {
	*Model
	editing bool
	before  string // the filter's text before it was edited
	input   textinput.Model
}

// edit lets one type a filter, which applies while it is typed.
func (f *filter) edit() tea.Cmd {
	f.editing, f.before = true, f.feed.Filter.Text
	f.input.SetValue(f.before)
	f.input.CursorEnd()
	f.input.Focus()
	return nil
}

// line is what is typed now.
func (f *filter) line() string {
	return f.theme.Bold.Of("filter: ") + f.theme.Typed(&f.input)
}

func (f *filter) typed(msg tea.KeyMsg) tea.Cmd {
	switch msg.Type {
	case tea.KeyEnter:
		f.editing = false
		return f.feed.SearchStore()
	case tea.KeyEsc:
		f.editing = false
		f.use(f.before)
	case tea.KeyUp:
		f.Move(-1)
	case tea.KeyDown:
		f.Move(1)
	default:
		f.input, _ = f.input.Update(msg)
		f.use(f.input.Value())
	}
	return nil
}

// use applies a filter. One that cannot be read leaves the last one as it is.
func (f *filter) use(text string) {
	parsed, err := live.ParseFilter(text)
	if err != nil {
		f.note.Complain(f.feed.Clock, err)
		return
	}
	*f.note = ui.Note{}
	f.Unmark() // what is not seen is not changed
	f.feed.Filter = parsed
	f.feed.Arrange()
}

// filterText says what is not listed, and how that ends: a list never leaves out keys in silence.
func (f *filter) filterText(width int) string {
	name, ends := "filter /"+f.feed.Filter.Text, "; esc ends it"
	counts := ": " + output.Thousands(int64(len(f.feed.Listed))) + " of " + output.Thousands(int64(len(f.feed.Rows)))
	c := &f.feed.Coverage
	switch {
	case f.feed.FollowsAll():
	case f.feed.IsSought():
		counts += fmt.Sprintf(" followed, %d%% of the store searched", min(100, 100*c.Looked/max(1, c.Total)))
	default:
		counts += " followed, enter searches the store"
	}
	const leastName = 12
	if width-ui.Width(counts)-len(ends) < min(leastName, ui.TextWidth(name)) {
		ends = ""
	}
	room := max(8, width-ui.Width(counts)-len(ends))
	return ui.Fit(f.theme.Bold.Of(ui.CutMiddle(name, room))+f.theme.Plain.Of(counts)+f.theme.Faint.Of(ends), width)
}
