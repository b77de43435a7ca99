package dash

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestKeysDo(t *testing.T) {
	for _, test := range []struct{ keys, want string }{
		{"", "[full] near tenant:acme:user:7 calm"},
		{"j", "full [near] tenant:acme:user:7 calm"},
		{"<end>", "full near tenant:acme:user:7 [calm]"},
		{"<pgdown><pgup>", "[full] near tenant:acme:user:7 calm"},
		{"S", "[calm] tenant:acme:user:7 near full"},
		{"jS", "calm tenant:acme:user:7 [near] full"}, // the cursor stays with its key
		{"sss", "[calm] full near tenant:acme:user:7"},
		{"/a<enter>", "[near] tenant:acme:user:7 calm"},
		{"/a<enter><esc>", "[full] near tenant:acme:user:7 calm"},
		{"/>80% !full<enter>", "[near]"},
		{"/<20%<enter>", "[calm]"},
		{"/api/*<enter>", "[tenant:acme:user:7]"},
		{"/full<down><enter>", "[full]"},
		{"mm", "full* near* [tenant:acme:user:7] calm"},
		{"mkm", "full [near] tenant:acme:user:7 calm"},
		{"g2gk<enter>", "[full] near tenant:acme:user:7 calm"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		if got := d.subjects(); got != test.want {
			t.Errorf("after %q it shows %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestLeaving(t *testing.T) {
	for keys, interrupted := range map[string]bool{"q": false, "<ctrl+c>": true, "<enter>q": false, "/<ctrl+c>": true, "r<ctrl+c>": true} {
		d := begin(t, three, nil)
		d.press(keys)
		if !d.left || d.interrupted != interrupted {
			t.Errorf("after %q: left %t, interrupted %t", keys, d.left, d.interrupted)
		}
	}
	d := begin(t, three, nil)
	if d.press("/q"); d.left {
		t.Error("a q in a filter leaves")
	}
}

func TestAPauseHoldsWhatIsShown(t *testing.T) {
	d := begin(t, three, nil)
	d.press(" ")
	d.take(store.Key{Subject: "calm"}, "fixed-window:100/1h", 95)
	d.second()
	if d.subjects() != "[full] near tenant:acme:user:7 calm" {
		t.Errorf("paused, it shows %s", d.subjects())
	}
	d.press(" ")
	if d.subjects() != "[calm] full near tenant:acme:user:7" {
		t.Errorf("going on, it shows %s", d.subjects())
	}
}

// The mouse does what keys do, and some keys change how often it looks.
func TestTheMouse(t *testing.T) {
	d := begin(t, three, nil)
	click := func(x, y int) {
		d.send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	}
	d.View()
	head := len(head{d.model}.lines())
	if click(10, head+3); d.subjects() != "full near [tenant:acme:user:7] calm" {
		t.Errorf("after a click on a row: %s", d.subjects())
	}
	if click(10, head+3); d.screen != d.detail {
		t.Error("a second click shows no detail")
	}
	d.press("<esc>")
	click(200, 200)
	d.press("+++++")
	fastest := d.feed.Refresh
	if d.press("---------"); fastest != 100*time.Millisecond || d.feed.Refresh != time.Minute {
		t.Errorf("it looks each %s at most and each %s at least", fastest, d.feed.Refresh)
	}
	if d.press("/[a"); !d.note.Bad {
		t.Error("nothing is said of a filter that is none")
	}
}

// What comes first in each order, and in its reverse.
func TestOrders(t *testing.T) {
	d := begin(t, func(d *driver) {
		d.take(store.Key{Subject: "a", Name: "slow"}, "fixed-window:100/1h", 50) // 50%, resets in an hour
		d.take(store.Key{Subject: "b", Name: "full"}, "10/1m", 10)               // 100%, in a minute
		d.take(store.Key{Subject: "c", Name: "huge"}, "1000/1m", 100)            // 10%, in six seconds
	}, nil)
	d.second()
	d.take(store.Key{Subject: "c", Name: "huge"}, "1000/1m", 100)
	d.take(store.Key{Subject: "a", Name: "slow"}, "fixed-window:100/1h", 10)
	d.second()
	for _, want := range []string{"b a c", "b a c", "a b c", "a b c", "b c a"} {
		for range 2 {
			d.press("<home>")
			if got := strings.NewReplacer("[", "", "]", "").Replace(d.subjects()); got != want {
				t.Errorf("by %s, reversed %t: %s, want %s", d.feed.Order, d.feed.Reversed, got, want)
			}
			d.press("S")
			names := strings.Fields(want)
			slices.Reverse(names)
			want = strings.Join(names, " ")
		}
		d.press("s")
	}
}
