package dash

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ourStyles are the only sequences that a frame has.
var ourStyles = regexp.MustCompile("\x1b\\[(7;)?(1;)?([0127]|3[1236])m")

// checkFrame makes sure that the frame fills the terminal, and that nothing in it is
// obeyed but our styles.
func (d *driver) checkFrame(name string) {
	d.t.Helper()
	frame := d.View()
	d.checkSize(name, frame)
	for i, r := range ourStyles.ReplaceAllString(frame, "") {
		if r != '\n' && output.Escape(string(r)) != string(r) || unicode.Is(unicode.Bidi_Control, r) {
			d.t.Fatalf("%s: at %d is %q in\n%q", name, i, r, frame)
		}
	}
}

// hostile fills a store with the keys of strangers, as subjects, limits and attributes.
func hostile(d *driver) {
	for i, text := range hostiletext.Subjects() {
		d.take(store.Key{Subject: text}, "10/1h", int64(1+i%10))
		if i%4 == 0 {
			d.take(store.Key{Subject: "user:" + text, Name: "api/user"}, "10/1h", int64(1+i%10))
		}
	}
}

func TestFramesOfHostileNames(t *testing.T) {
	t.Parallel()
	texts := hostiletext.Texts()
	d := begin(t, hostile, func(o *Options) {
		o.Color, o.Context, o.Where, o.Selection = true, texts[0], texts[1]+strings.Join(texts, ""), strings.Join(texts, "")
		o.Servers = func(context.Context) []Server {
			var all []Server
			for _, text := range texts[:8] {
				all = append(all, Server{Name: text, Version: text, Role: text}, Server{Name: text, Problem: text})
			}
			return all
		}
	})
	for _, size := range []tea.WindowSizeMsg{{Width: 200, Height: 300}, {Width: 80, Height: 24}} {
		d.send(size)
		for _, keys := range []string{"", "g", "<enter>", "<esc>", "?", "<esc>"} {
			d.press(keys)
			d.checkFrame(keys)
		}
	}
	d.Where, d.Selection = texts[1], texts[2]
	for i := range d.keys.rows {
		d.keys.moveTo(d.model, i, true)
		d.press("<enter>")
		d.checkFrame("detail")
		d.press("<esc>mr")
		d.checkFrame("question")
		d.press("<esc>m")
	}
	for _, text := range texts {
		d.press("/")
		d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true})
		d.press("<enter>")
		d.checkFrame("filtered by " + text)
		d.press("<esc>")
		for _, msg := range []tea.Msg{actionFailed{errors.New(text)}, resetDone{Changed{Keys: 1, Backup: text}, d.chosen(), nil},
			fetched{snapshot: snapshot{Time: d.now}, Err: errors.New(text)}} {
			d.Update(msg)
			d.checkFrame(fmt.Sprintf("%T of %q", msg, text))
		}
		d.feed.scanError, d.feed.problem, d.changes.lastReset = nil, nil, nil
	}
}

// What is marked and confirmed is reset, whatever it looks like.
func TestResetOfHostileNames(t *testing.T) {
	d := begin(t, hostile, nil)
	d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, text := range hostiletext.Subjects() {
		key := store.Key{Subject: text, Name: "token-bucket/1h"}
		i := slices.IndexFunc(d.keys.rows, func(r *row) bool { return r.Key == key })
		if i < 0 {
			t.Fatalf("%q is not shown", text)
		}
		d.keys.moveTo(d.model, i, true)
		d.press("mr")
		if shown := d.View(); !strings.Contains(shown, "Delete 1 key?") {
			t.Errorf("asked of %q:\n%s", text, shown)
		}
		d.press("yu")
		if want := []ID{ownID(key)}; !slices.Equal(d.actions.reset, want) || !slices.Equal(d.changes.lastKeys, want) {
			t.Errorf("for %q it reset %q, and would undo %q", text, d.actions.reset, d.changes.lastKeys)
		}
		d.press("y")
	}
}
