package dash

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ourStyles are the only sequences that a frame has.
var ourStyles = regexp.MustCompile("\x1b\\[(1;)?([0127]|3[1236])m")

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
	backend := &failing{}
	d := beginIn(t, ui.OfTerminal(func(string) string { return "" }), hostile, func(o *live.Options) {
		backend.Keyspace, o.Store = o.Store, backend
		o.Context, o.Where, o.Selection = texts[0], texts[1]+strings.Join(texts, ""), strings.Join(texts, "")
		o.Servers = func(context.Context) []live.Server {
			var all []live.Server
			for _, text := range texts[:8] {
				all = append(all, live.Server{Name: text, Version: text, Role: text},
					live.Server{Name: text, Problem: text})
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
	d.feed.Where, d.feed.Selection = texts[1], texts[2]
	for range d.feed.Listed {
		d.press("<down>")
		d.press("<enter>")
		d.checkFrame("detail")
		d.press("<esc>r")
		d.checkFrame("question")
		d.press("<esc>")
	}
	for _, text := range texts {
		d.press("/")
		d.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true})
		d.press("<enter>")
		d.checkFrame("filtered by " + text)
		d.press("<esc>")
		d.actions.err = errors.New(text)
		d.press("ry")
		d.checkFrame("an action that fails with " + text)
		backend.with = always(errors.New(text))
		d.second()
		d.checkFrame("a store that fails with " + text)
		backend.with, d.actions.err = nil, nil
		d.second()
	}
}

// What is confirmed is reset, whatever it looks like.
func TestResetOfHostileNames(t *testing.T) {
	d := begin(t, hostile, nil)
	d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
	for _, text := range hostiletext.Subjects() {
		key := store.Key{Subject: text, Name: "token-bucket/1h"}
		i := slices.IndexFunc(d.feed.Listed, func(r *live.Row) bool { return r.Key == key })
		if i < 0 {
			t.Fatalf("%q is not shown", text)
		}
		d.press("<home>" + strings.Repeat("j", i) + "r")
		if shown := d.View(); !strings.Contains(shown, "Delete 1 key?") {
			t.Errorf("asked of %q:\n%s", text, shown)
		}
		d.press("yu")
		if d.actions.reset != key {
			t.Errorf("for %q it reset %q", text, d.actions.reset)
		}
		d.press("y")
	}
}
