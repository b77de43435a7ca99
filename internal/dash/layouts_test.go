package dash

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// othersStore is a keyspace of other limiters: what is under a store key is read by that alone.
type othersStore struct {
	admin.Keyspace
	entries []admin.Entry
	unsure  []string
}

func (s *othersStore) Scan(_ context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if q.StoreKeys == nil && q.Keys != nil {
			yield(admin.Entry{}, fmt.Errorf("%w: keys without store keys", store.ErrInvalid))
			return
		}
		for _, e := range s.entries {
			if q.StoreKeys == nil || slices.Contains(q.StoreKeys, e.StoreKey) {
				if !yield(e, nil) {
					return
				}
			}
		}
		if q.StoreKeys == nil {
			for _, storeKey := range s.unsure {
				if !yield(admin.Entry{StoreKey: storeKey}, &layouts.UnsureError{
					StoreKey: storeKey, Layouts: []string{"counter"}}) {
					return
				}
			}
		}
		q.Report(int64(len(s.entries)), int64(len(s.entries)))
	}
}

// otherEntry is an entry of another limiter, a window of ten in a minute.
func otherEntry(layout, subject, storeKey string, used int64, defects ...admin.Defect) admin.Entry {
	e := admin.Entry{Key: store.Key{Subject: subject, Name: layout + "/minute"}, Layout: layout, StoreKey: storeKey,
		TTL:   time.Minute,
		Limit: store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}, Defects: defects,
		Record: admin.Record{Members: []admin.Member{{StoreKey: storeKey, Type: "string"}}}}
	e.Used, e.Remaining, e.Allowed, e.ResetAfter = used, max(0, 10-used), used < 10, 30*time.Second
	return e
}

func forEver() admin.Defect {
	return admin.Defect{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever (Kong/kong#5763)",
		Stuck: true}
}

// some are limits of several layouts, of which one is stuck, one of an unknown limit, two have the
// same names, and one is of a key that nobody can print.
func some() *othersStore {
	unknown := otherEntry("redis_rate", "user:1", "rate:user:1", 0)
	unknown.Key.Name, unknown.Limit = "redis_rate", store.Limit{Algorithm: store.TokenBucket}
	unknown.UsedUnknown, unknown.ResetTold = true, true
	early := otherEntry("traefik", "10.0.0.1", "rate:mw@file:10.0.0.1", 4,
		admin.Defect{Kind: admin.AbsurdTTL, Text: "an expiry much later than the limit can last"})
	timer := otherEntry("laravel", "a\nb", "app:a\nb", 3)
	timer.Record.Members = append(timer.Record.Members, admin.Member{StoreKey: "app:a\nb:timer", Type: "hash"})
	stuck := otherEntry("kong", "203.0.113.9", "ratelimit:203.0.113.9:1:minute", 12, forEver())
	stuck.TTL = -1
	return &othersStore{unsure: []string{"rate:x", "rate:y"}, entries: []admin.Entry{unknown, early, timer, stuck,
		otherEntry("kong", "203.0.113.1", "ratelimit:route-a:203.0.113.1:1:minute", 3),
		otherEntry("kong", "203.0.113.1", "ratelimit:route-b:203.0.113.1:1:minute", 7)}}
}

func beginWithOthers(t *testing.T, backend *othersStore, change func(*live.Options)) *driver {
	t.Helper()
	d := begin(t, nil, func(o *live.Options) {
		o.Store, o.Layouts, o.Denials, o.Overrides = backend, "auto", nil, nil
		o.Beyond = func(layout string) string {
			return map[string]string{"kong": "Workers have counts of their own."}[layout]
		}
		if change != nil {
			change(o)
		}
	})
	d.second()
	return d
}

// Each view of other limiters' keys, small and large.
func TestFramesOfOtherLimiters(t *testing.T) {
	for _, view := range []struct{ name, keys string }{
		{"layouts", ""}, {"layouts-detail", "<enter>"}, {"layouts-pair", "/laravel<enter><enter>"},
		{"layouts-unknown", "/redis_rate<enter><enter>"},
		{"layouts-reset", "r"}, {"layouts-help", "?<end>"}, {"layouts-override", "o"},
	} {
		for _, size := range []tea.WindowSizeMsg{{Width: 120, Height: 40}, {Width: 40, Height: 10}} {
			d := beginWithOthers(t, some(), nil)
			d.send(size)
			d.press(view.keys)
			name := fmt.Sprintf("%s-%dx%d", view.name, size.Width, size.Height)
			d.checkSize(name, d.View())
			golden(t, name+".txt", d.View())
		}
	}
}

// Limits of the same name under two store keys are two rows, and a reset is of the one that was chosen.
func TestRowsOfTheSameNameAreTwo(t *testing.T) {
	d := beginWithOthers(t, some(), nil)
	d.send(tea.WindowSizeMsg{Width: 160, Height: 40})
	if text := d.View(); strings.Count(text, "rateli…~") != 2 {
		t.Errorf("there are no two rows:\n%s", text)
	}
	d.actions.nothing = true
	d.press("/route-b<enter>ry")
	want := live.ID{Key: store.Key{Subject: "203.0.113.1", Name: "kong/minute"},
		StoreKey: "ratelimit:route-b:203.0.113.1:1:minute"}
	if !slices.Equal(d.actions.reset, []live.ID{want}) {
		t.Errorf("reset were %v", d.actions.reset)
	}
}
