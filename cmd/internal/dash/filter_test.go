package dash

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
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

// A filter looks in the whole store, and says how many keys it keeps there and how many of them are followed.
func TestAFilterLooksInTheWholeStore(t *testing.T) {
	d := begin(t, crowd, func(o *Options) { o.MaxKeys = 20 })
	d.send(tea.WindowSizeMsg{Width: 100, Height: 24})
	if strings.Contains(d.View(), "filter") && !strings.Contains(d.View(), "/ filter") {
		t.Errorf("there is no filter:\n%s", d.View())
	}
	passes := d.feed.pass
	if d.press("/acme"); !strings.Contains(d.View(), "filter /acme: not counted in the store yet, 0 followed; esc ends it") {
		t.Errorf("while it is typed:\n%s", d.View())
	}
	if d.press("<enter>"); d.feed.pass != passes+1 {
		t.Errorf("enter began %d scans", d.feed.pass-passes)
	}
	if !strings.Contains(d.View(), "filter /acme: 6 in the store, 6 followed; esc ends it") || len(d.keys.rows) != 6 {
		t.Errorf("after a scan %d are listed:\n%s", len(d.keys.rows), d.View())
	}
	d.take(store.Key{Subject: "tenant:acme:late"}, "100/1h", 1)
	if d.second(); !strings.Contains(d.View(), "filter /acme: 7 in the store, 7 followed") {
		t.Errorf("with another key:\n%s", d.View())
	}
	d.press("/<bs><bs><bs><bs>globex:user:3<enter>")
	if !strings.Contains(d.View(), "filter /globex:user:3: 11 in the store, 11 followed") {
		t.Errorf("another filter:\n%s", d.View())
	}
	if d.press("<esc>"); strings.Contains(d.View(), "filter /") {
		t.Errorf("esc ended it:\n%s", d.View())
	}
}

// A scan that was given up for another brings nothing more, and no third one follows it.
func TestAScanThatWasGivenUpIsForgotten(t *testing.T) {
	d := begin(t, crowd, func(o *Options) { o.MaxKeys = 20 })
	d.keys.arrange(d.model)
	begun := d.scan()
	old := d.feed.pass
	d.filter.Filter.Text = "x"
	next := d.searchStore()
	if next == nil || d.feed.pass != old+1 {
		t.Fatalf("the scan is number %d, and the one before it is %d", d.feed.pass, old)
	}
	d.run(begun)
	d.Update(source.Scanned{Pass: old, Wanted: 99, Done: true}) // it was on its way
	if d.Update(passDue{old}); d.feed.pass != old+1 || d.feed.search.whole {
		t.Errorf("the old scan (%d) goes on: number %d is under way, whole %v", old, d.feed.pass, d.feed.search.whole)
	}
	if d.run(next); !d.feed.search.whole {
		t.Error("the new one did not end")
	}
}

// A group that was opened is a filter, too.
func TestTheKeysOfAGroupAreNamed(t *testing.T) {
	d := begin(t, three, nil)
	d.press("g2")
	if d.press("<enter>"); !strings.Contains(d.View(), "tenant (none): 3 of 4; esc goes back") {
		t.Errorf("in a group:\n%s", d.View())
	}
}
