package ui

import (
	"fmt"
	"time"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/bubbles/textinput"
	"github.com/charmbracelet/bubbles/viewport"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
)

// Binding is what a key does. The help and the foot show the same table.
type Binding struct {
	key.Binding
	Do func() tea.Cmd
}

// Bind makes a binding of keys, which the help calls label.
func Bind(label, help string, do func() tea.Cmd, keys ...string) Binding {
	return Binding{key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, help)), do}
}

// Press does what is bound to a key, if anything is.
func Press(all []Binding, msg tea.KeyMsg) tea.Cmd {
	for i := range all {
		if key.Matches(msg, all[i].Binding) {
			return all[i].Do()
		}
	}
	return nil
}

// Keys are the bindings as help draws them.
func Keys(all []Binding) []key.Binding {
	keys := make([]key.Binding, len(all))
	for i := range all {
		keys[i] = all[i].Binding
	}
	return keys
}

// NewInput returns a line to type in that needs nothing but keys.
func NewInput() textinput.Model {
	input := textinput.New()
	input.Cursor.SetMode(cursor.CursorStatic)
	input.KeyMap.Paste.SetEnabled(false) // terminals paste by themselves
	return input
}

// Typed is what was typed into a line, with the place where more comes.
func (t *Theme) Typed(input *textinput.Model) string {
	before, after := []rune(input.Value())[:input.Position()], []rune(input.Value())[input.Position():]
	return t.Plain.Of(string(before)) + t.Accent.Of("▏") + t.Plain.Of(string(after))
}

// Note is a text that is shown for a while.
type Note struct {
	Text  string
	Bad   bool
	until time.Time
}

const noteStays = 8 * time.Second

// Say shows a text for as long as it takes to read.
func (n *Note) Say(now time.Time, text string) {
	reading := 2*time.Second + time.Duration(len(text))*80*time.Millisecond
	*n = Note{Text: text, until: now.Add(min(noteStays, reading))}
}

// Complain shows an error from now on.
func (n *Note) Complain(now time.Time, err error) {
	const longest = 2000
	*n = Note{Text: output.Shorten(err.Error(), longest), Bad: true, until: now.Add(noteStays)}
}

// Expire takes the text away when it was shown for long enough.
func (n *Note) Expire(now time.Time) {
	if now.After(n.until) {
		*n = Note{}
	}
}

// Text is a screen of text that is scrolled by the keys that every screen has.
type Text struct {
	Lines func(width int) []string // of the text, in so many columns
	view  viewport.Model
}

// Bindings are the keys that only this screen has: none.
func (t *Text) Bindings() []Binding { return nil }

// Move scrolls the text.
func (t *Text) Move(by int) { t.view.SetYOffset(t.view.YOffset + by) }

// Page is how many lines are in sight.
func (t *Text) Page() int { return t.view.Height }

// View draws the text from where it is scrolled to.
func (t *Text) View(width, height int) string {
	lines := t.Lines(width)
	cut := len(lines) > height && height > 1
	if cut {
		height--
	}
	t.view.Width, t.view.Height = width, height
	t.view.SetContent(Join(lines))
	t.view.SetYOffset(t.view.YOffset)
	text := t.view.View()
	if cut {
		last := t.view.YOffset + height
		text += fmt.Sprintf("\nlines %d to %d of %d; ↑ ↓ scroll", t.view.YOffset+1, last, len(lines))
	}
	return text
}
