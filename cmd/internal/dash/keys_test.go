package dash

import (
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestKeysDo(t *testing.T) {
	for _, test := range []struct{ keys, want string }{
		{"", "[full] near tenant:acme:user:7 calm"},
		{"j", "full [near] tenant:acme:user:7 calm"},
		{"jjk", "full [near] tenant:acme:user:7 calm"},
		{"k", "[full] near tenant:acme:user:7 calm"},
		{"jjjjjj", "full near tenant:acme:user:7 [calm]"},
		{"<end>", "full near tenant:acme:user:7 [calm]"},
		{"G<home>", "[full] near tenant:acme:user:7 calm"},
		{"<pgdown>", "full near tenant:acme:user:7 [calm]"},
		{"<pgdown><pgup>", "[full] near tenant:acme:user:7 calm"},
		{"<down><down><up>", "full [near] tenant:acme:user:7 calm"},
		{"S", "[calm] tenant:acme:user:7 near full"},
		{"jS", "calm tenant:acme:user:7 [near] full"}, // the cursor stays with its key
		{"ssssss", "[calm] full near tenant:acme:user:7"},
		{"sss", "[tenant:acme:user:7] full near calm"},
		{"/a<enter>", "[near] tenant:acme:user:7 calm"},
		{"/a", "[near] tenant:acme:user:7 calm"},
		{"/a<esc>", "[full] near tenant:acme:user:7 calm"},
		{"/a<enter><esc>", "[full] near tenant:acme:user:7 calm"},
		{"/!a<enter>", "[full]"},
		{"/>80%<enter>", "[full] near"},
		{"/>80% !full<enter>", "[near]"},
		{"/<20%<enter>", "[calm]"},
		{"/tenant:*:user:7<enter>", "[tenant:acme:user:7]"},
		{"/api/*<enter>", "[tenant:acme:user:7]"},
		{"/nobody<enter>", ""},
		{"/full<down><enter>", "[full]"},
		{"mm", "full* near* [tenant:acme:user:7] calm"},
		{"mkm", "full [near] tenant:acme:user:7 calm"},
		{"m<esc>", "full [near] tenant:acme:user:7 calm"},
		{"g<enter><enter><esc><esc>", "[full] near tenant:acme:user:7 calm"},
		{"g2gk<enter>", "[full] near tenant:acme:user:7 calm"},
		{"g0", "[full] near tenant:acme:user:7 calm"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		if got := d.subjects(); got != test.want {
			t.Errorf("after %q it shows %q, want %q", test.keys, got, test.want)
		}
	}
}

func TestKeysGoToScreensAndBack(t *testing.T) {
	for _, test := range []struct {
		keys string
		want string
	}{
		{"?", "help"}, {"??", "keys"}, {"?<esc>", "keys"}, {"<enter>", "detail"}, {"<enter><esc>", "keys"},
		{"<enter>?<esc>", "detail"}, {"<enter>?<esc><esc>", "keys"}, {"?jjj<esc>", "keys"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		names := map[screen]string{&d.keys: "keys", &d.detail: "detail", &d.help: "help"}
		if got := names[d.screen]; got != test.want {
			t.Errorf("after %q it is on screen %q, want %q", test.keys, got, test.want)
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

func TestTheMouse(t *testing.T) {
	d := begin(t, three, nil)
	click := func(x, y int) {
		d.send(tea.MouseMsg{X: x, Y: y, Action: tea.MouseActionPress, Button: tea.MouseButtonLeft})
	}
	head := len(d.headLines())
	if click(10, head+3); d.subjects() != "full near [tenant:acme:user:7] calm" {
		t.Errorf("after a click on a row: %s", d.subjects())
	}
	if click(10, head+3); d.screen != &d.detail {
		t.Error("a second click shows no detail")
	}
	d.press("<esc>")
	if click(3, head); d.keys.order != followed.BySubject {
		t.Errorf("after a click on a header it is sorted by %s", d.keys.order)
	}
	if click(3, head); !d.keys.reversed {
		t.Error("a second click does not reverse the order")
	}
	d.send(tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonWheelDown})
	click(200, 200)
	click(0, 0)
}

func TestFiltersThatAreNone(t *testing.T) {
	for _, text := range []string{"[a", ">x", "<-1", "a*b[", "!>1%%"} {
		if _, err := followed.ParseFilter(text); err == nil {
			t.Errorf("%q is a filter", text)
		}
		d := begin(t, three, nil)
		d.press("/" + text)
		if !d.note.bad {
			t.Errorf("nothing is said of %q", text)
		}
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
	for o, want := range map[followed.Order]string{
		followed.ByDenied: "b a c", followed.ByCloseness: "b a c", followed.ByRate: "c a b", followed.ByUsed: "c a b",
		followed.ByRemaining: "b a c", followed.ByReset: "a b c",
		followed.BySubject: "a b c",
		followed.ByLimit:   "b c a",
	} {
		d.run(d.sortBy(o))
		for range 2 {
			d.press("<home>")
			if got := strings.NewReplacer("[", "", "]", "").Replace(d.subjects()); got != want {
				t.Errorf("by %s, reversed %t: %s, want %s", o, d.keys.reversed, got, want)
			}
			d.press("S")
			names := strings.Fields(want)
			slices.Reverse(names)
			want = strings.Join(names, " ")
		}
	}
}
