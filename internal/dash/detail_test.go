package dash

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// On a wide screen the detail stands beside the list, follows its cursor, and leaves all keys of the list to it.
func TestTheDetailIsBesideTheList(t *testing.T) {
	d := begin(t, three, nil)
	shows := func(when, subject string) {
		t.Helper()
		text := d.View()
		isListed := strings.Contains(text, "  near ") && strings.Contains(text, "SUBJECT ")
		if isDetailed := strings.Contains(text, "subject       "+subject); !isDetailed || isListed != (d.width >= 140) {
			t.Errorf("%s, at %d columns:\n%s", when, d.width, text)
		}
	}
	d.send(tea.WindowSizeMsg{Width: 139, Height: 40})
	d.press("<enter>")
	shows("as a page", "full")
	d.send(tea.WindowSizeMsg{Width: 140, Height: 40})
	shows("made wider", "full")
	d.press("j")
	shows("after down", "near")
	if d.detail.read != nil {
		t.Error("it shows what was read of another key")
	}
	if d.second(); d.detail.read == nil || d.detail.read.Of.Key.Subject != "near" {
		t.Error("what is stored of the key was not read")
	}
	for x, want := range map[int]string{100: "near", 5: "near"} {
		d.send(tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft, X: x, Y: 4})
		shows("after a click", want)
	}
	d.press("sSS/calm<enter>")
	if text := d.View(); !strings.Contains(text, "filter /calm: 1 of 4") || !strings.Contains(text, "subject       calm") {
		t.Errorf("with a filter for another:\n%s", text)
	}
}

// What is done is done to the marked keys where they are seen, and to the key of the page where only that is.
func TestMarksBesideTheDetail(t *testing.T) {
	for width, want := range map[int]int{160: 2, 120: 1} {
		d := begin(t, three, nil)
		d.send(tea.WindowSizeMsg{Width: width, Height: 40})
		d.press("mm<enter>ry")
		if len(d.actions.reset) != want {
			t.Errorf("at %d columns %d keys were reset, want %d", width, len(d.actions.reset), want)
		}
	}
}

// The pane scrolls where there is no room for all of it, and begins anew with another key.
func TestThePaneScrolls(t *testing.T) {
	d := begin(t, three, nil)
	d.send(tea.WindowSizeMsg{Width: 140, Height: 12})
	d.press("<enter>JJ")
	if d.detail.scroll != 2 || d.keys.cursor != 0 {
		t.Errorf("it is scrolled by %d, with the cursor at %d", d.detail.scroll, d.keys.cursor)
	}
	if d.press("K"); d.detail.scroll != 1 {
		t.Errorf("it is scrolled by %d after K", d.detail.scroll)
	}
	if d.press("j"); d.detail.scroll != 0 || d.keys.cursor != 1 {
		t.Errorf("it is scrolled by %d for another key", d.detail.scroll)
	}
}

// The minutes are counted up to now, and what is not known of them is blank.
func TestTheMinutesOfAKey(t *testing.T) {
	d := begin(t, func(d *driver) { d.take(store.Key{Subject: "a"}, "fixed-window:1000/1h", 1) }, nil)
	d.second()
	for range 90 {
		d.take(store.Key{Subject: "a"}, "fixed-window:1000/1h", 2)
		d.second()
	}
	d.press("<enter>")
	text := strings.Join(strings.Fields(d.View()), " ")
	if !strings.Contains(text, "minutes -5m -4m -3m -2m -1m most used 6% 18% taken 60 120 used") {
		t.Errorf("the minutes are:\n%s", d.View())
	}
}
