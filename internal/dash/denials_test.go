package dash

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func deniedRow(subject string, count int64) admin.Denied {
	return admin.Denied{Key: store.Key{Subject: subject, Name: "token-bucket/1m"}, Count: count}
}

// blockedRow is the row of what a block denied.
func blockedRow(block *store.Override, count int64) admin.Denied {
	return admin.Denied{Key: admin.BlockKey(block), Count: count, Blocked: count, Override: block.ID}
}

// The rate is what was added between looks, also across the minutes that the table is in.
func TestDenialsASecond(t *testing.T) {
	d := begin(t, three, nil)
	for second := range 130 {
		d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("full", 7), deniedRow("near", 1)}})
		d.second()
		if second < 1 {
			continue
		}
		for subject, want := range map[string]float64{"full": 7, "near": 1} {
			r := d.feed.Rows[deniedRow(subject, 0).Key]
			if got := r.DeniedRate(); math.Abs(got-want) > want*0.01 {
				t.Fatalf("after %d s %s is denied %.2f a second, want %g", second, subject, got, want)
			}
			if !r.IsDenied(d.now) {
				t.Fatalf("after %d s %s is not denied", second, subject)
			}
		}
	}
	if text := d.View(); !strings.Contains(text, "DENIED 8.0/s") || !strings.Contains(text, "2 keys denied") {
		t.Errorf("it says:\n%s", text)
	}
	for range live.Lately + 1 {
		d.second()
	}
	if text := d.View(); !strings.Contains(text, "DENIED 0/s") || strings.Contains(text, "keys denied") {
		t.Errorf("when nobody is denied any more it says:\n%s", text)
	}
}

// Who is denied is what the operator looks for: it is shown first, and also if it is far from
// its limit, unused, or one of more keys than are followed.
func TestDeniedKeysAreShown(t *testing.T) {
	d := begin(t, func(d *driver) {
		for i := range 50 {
			d.take(store.Key{Subject: fmt.Sprintf("user:%02d", i)}, "100/1h", 1+int64(i))
		}
	}, func(o *live.Options) { o.MaxKeys = 5 })
	hourly := admin.Denied{Key: store.Key{Subject: "user:00", Name: "token-bucket/1h"}, Count: 2}
	d.deny(admin.Denials{Rows: []admin.Denied{hourly, deniedRow("nobody", 90)}})
	d.second()
	d.second()
	if want := "[nobody] user:00 user:49 user:48 user:47"; d.subjects() != want {
		t.Errorf("it shows %s, want %s", d.subjects(), want)
	}
	r := d.feed.Rows[hourly.Key]
	if r.Used == 0 || r.Limit.Count != 100 {
		t.Errorf("of a key that is denied it knows %d of %d", r.Used, r.Limit.Count)
	}
}

// brokenDenials is a table that cannot be read.
type brokenDenials struct{ admin.SideTable }

func (brokenDenials) Counts(context.Context, time.Duration, func(store.Instant, int64, *admin.Tally)) (
	store.Instant, error) {
	return 0, fmt.Errorf("%w: no permissions", store.ErrRefused)
}

func TestDenialsThatCannotBeRead(t *testing.T) {
	d := begin(t, three, func(o *live.Options) { o.Denials = &admin.Tables{SideTable: brokenDenials{}} })
	d.second()
	if text := d.View(); !strings.Contains(text, "DENIED not known") || !strings.Contains(text, "no permissions") ||
		!strings.Contains(text, "10/10") {
		t.Errorf("it says:\n%s", text)
	}
}

func TestDenialsThatAreNotExactAreMarked(t *testing.T) {
	for _, test := range []struct {
		add        admin.Denials
		want, keys string
	}{
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}}, "DENIED 10/s", "1 key denied"},
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}, Lost: true}, "DENIED ≥10/s", "1 key denied"},
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}, Others: 4}, "DENIED ≥10/s", "≥1 key denied"},
	} {
		d := begin(t, nil, nil)
		d.deny(test.add)
		d.second()
		if text := d.View(); !strings.Contains(text, test.want) || !strings.Contains(text, ", "+test.keys) {
			t.Errorf("of %+v it says\n%s\nwant %q", test.add, text, test.want)
		}
	}
}
