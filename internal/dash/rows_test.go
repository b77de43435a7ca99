package dash

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

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
	next := d.scan() // which has found nothing yet
	if !strings.Contains(d.View(), "filter /acme: 6 in the store, 6 followed") {
		t.Errorf("while the next scan goes on:\n%s", d.View())
	}
	d.run(next)
	d.take(store.Key{Subject: "tenant:acme:late"}, "100/1h", 1)
	if d.second(); !strings.Contains(d.View(), "filter /acme: 7 in the store, 7 followed") {
		t.Errorf("with another key:\n%s", d.View())
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
	d.filter.filter.Text = "x"
	next := d.searchStore()
	if next == nil || d.feed.pass != old+1 {
		t.Fatalf("the scan is number %d, and the one before it is %d", d.feed.pass, old)
	}
	d.run(begun)
	d.Update(scanned{Pass: old, Wanted: 99, Done: true}) // it was on its way
	if d.Update(passDue{old}); d.feed.pass != old+1 || d.feed.search.whole {
		t.Errorf("the old scan (%d) goes on: number %d is under way, whole %v", old, d.feed.pass, d.feed.search.whole)
	}
	if d.run(next); !d.feed.search.whole {
		t.Error("the new one did not end")
	}
}

// What denied keys have in common is above the list: enter lists only them.
func TestWhatIsInCommonFilters(t *testing.T) {
	d := begin(t, nil, nil)
	scraped(d)
	d.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	shown := len(d.keys.inCommon(d.model))
	if d.press("<up>"); shown == 0 || d.keys.common != shown || d.current() != nil {
		t.Fatalf("it is on line %d of %d, and row %v", d.keys.common, shown, d.current())
	}
	for range shown {
		d.press("<up>")
	}
	worst := d.keys.offenders[0]
	if d.press("<enter>"); len(d.keys.rows) < worst.Keys || d.keys.common != 0 || d.filter.Text != worst.By.Attribute+"="+worst.Name {
		t.Errorf("%d keys for %+v by %q", len(d.keys.rows), worst, d.filter.Text)
	}
	d.press("<esc>/tenant=acme<enter>")
	for _, r := range d.keys.rows {
		if !strings.Contains(r.Key.Subject, "tenant:acme") {
			t.Errorf("%s is not of acme", r.Key)
		}
	}
}
