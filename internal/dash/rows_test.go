package dash

import (
	"context"
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// crowd is more keys than are followed, of which those with little use have acme in their subjects.
func crowd(d *driver) {
	for i := range 40 {
		d.take(store.Key{Subject: fmt.Sprintf("tenant:globex:user:%d", i)}, "100/1h", 50+int64(i))
	}
	for i := range 6 {
		d.take(store.Key{Subject: fmt.Sprintf("tenant:acme:user:%d", i)}, "100/1h", 1+int64(i))
	}
}

// A filter says how many of the followed keys it keeps, and what looks for others.
func TestAFilterIsOfWhatIsFollowed(t *testing.T) {
	d := begin(t, crowd, func(o *live.Options) { o.MaxKeys = 20 })
	d.send(tea.WindowSizeMsg{Width: 100, Height: 24})
	const want = "filter /acme: 0 of 20 followed; `limitctl dashboard PATTERN` looks in the whole store; esc ends it"
	if d.press("/acme"); !strings.Contains(d.View(), want) {
		t.Errorf("while it is typed:\n%s", d.View())
	}
	if d.press("<enter><esc>"); strings.Contains(d.View(), "filter /") {
		t.Errorf("esc ended it:\n%s", d.View())
	}
}

// What denied keys have in common is above the list: w lists only them, then those of the next.
func TestWhatIsInCommonFilters(t *testing.T) {
	d := begin(t, nil, nil)
	scraped(d)
	d.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	worst, next := d.feed.Offenders[0], d.feed.Offenders[1]
	if text := d.View(); !strings.Contains(text, "why:   "+worst.By+" "+worst.Name) {
		t.Fatalf("it does not say the first cause:\n%s", text)
	}
	if d.press("w"); len(d.feed.Listed) < worst.Keys || !strings.HasSuffix(d.feed.Filter.Text, "="+worst.Name) {
		t.Errorf("%d keys for %+v by %q", len(d.feed.Listed), worst, d.feed.Filter.Text)
	}
	if d.press("b"); !strings.Contains(d.box(), "Block ip:203.0.113.") || !strings.Contains(d.box(), "ip:"+worst.Name) {
		t.Errorf("of the keys of a network b asks:\n%s", d.box())
	}
	d.press("<esc>")
	if d.press("w"); len(d.feed.Listed) < next.Keys || !strings.HasSuffix(d.feed.Filter.Text, "="+next.Name) {
		t.Errorf("%d keys for %+v by %q", len(d.feed.Listed), next, d.feed.Filter.Text)
	}
	d.press("<esc>/tenant=acme<enter>")
	for _, r := range d.feed.Listed {
		if !strings.Contains(r.Key.Subject, "tenant:acme") {
			t.Errorf("%s is not of acme", r.Key)
		}
	}
}

// What began is said while somebody is denied, in a line that no text leaves. A command below it is whole or missing.
func TestWhatBeganIsSaid(t *testing.T) {
	command := "limitctl " + strings.Repeat("x", 200)
	d := begin(t, three, func(o *live.Options) {
		o.Began = func(context.Context) string {
			return "api/user since 12:00, after \x1b[2J" + strings.Repeat("long ", 50) + "\n" + command
		}
	})
	if d.second(); strings.Contains(d.View(), "began:") {
		t.Errorf("while nobody is denied:\n%s", d.View())
	}
	d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("full", 3)}})
	for range 2 {
		d.second()
	}
	d.checkFrame("began")
	if !strings.Contains(d.View(), "began: api/user since 12:00, after ") {
		t.Errorf("while somebody is denied:\n%s", d.View())
	}
	if strings.Contains(d.View(), "limitctl x") {
		t.Errorf("a command is cut:\n%s", d.View())
	}
	command = "limitctl config rollback 1"
	for range 7 {
		d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("full", 3)}})
		d.second()
	}
	if d.checkFrame("began"); !strings.Contains(d.View(), "  "+command+"\n") &&
		!strings.Contains(d.View(), "  "+command+" ") {
		t.Errorf("a command that fits:\n%s", d.View())
	}
}
