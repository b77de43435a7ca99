package dash

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestKeysDo(t *testing.T) {
	for _, test := range []struct{ keys, want string }{
		{"", "[full] near tenant:acme:user:7 calm"},
		{"j", "full [near] tenant:acme:user:7 calm"},
		{"<end>", "full near tenant:acme:user:7 [calm]"},
		{"<pgdown><pgup>", "[full] near tenant:acme:user:7 calm"},
		{"jsss", "calm full [near] tenant:acme:user:7"}, // the cursor stays with its key
		{"sss", "[calm] full near tenant:acme:user:7"},
		{"/a<enter>", "[near] tenant:acme:user:7 calm"},
		{"/a<enter><esc>", "[full] near tenant:acme:user:7 calm"},
		{"/a !tenant*<enter>", "[near] calm"},
		{"/api/*<enter>", "[tenant:acme:user:7]"},
		{"jjg", "[full] near tenant:acme:user:7 calm"},
	} {
		d := begin(t, three, nil)
		d.press(test.keys)
		if got := d.subjects(); got != test.want {
			t.Errorf("after %q it shows %q, want %q", test.keys, got, test.want)
		}
	}
}

// What is shown of a subject can be typed, and the subject itself.
func TestAFilterIsOfWhatIsShown(t *testing.T) {
	for _, filter := range []string{"2001:db8", "2001%3Adb8", "*db8::/64"} {
		d := begin(t, func(d *driver) {
			d.take(store.Key{Subject: "ip:2001%3Adb8%3A%3A/64", Name: "n"}, "10/1m", 1)
			d.take(store.Key{Subject: "ip:203.0.113.7", Name: "n"}, "10/1m", 1)
		}, nil)
		if d.press("/" + filter + "<enter>"); d.subjects() != "[ip:2001%3Adb8%3A%3A/64]" {
			t.Errorf("%s keeps %s", filter, d.subjects())
		}
	}
}

func TestLeaving(t *testing.T) {
	for keys, interrupted := range map[string]bool{"q": false, "<ctrl+c>": true, "<enter>q": false, "/<ctrl+c>": true,
		"r<ctrl+c>": true} {
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

// What comes first in each order.
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
		d.press("<home>")
		if got := strings.NewReplacer("[", "", "]", "").Replace(d.subjects()); got != want {
			t.Errorf("by %d: %s, want %s", d.feed.Order, got, want)
		}
		d.press("s")
	}
}
