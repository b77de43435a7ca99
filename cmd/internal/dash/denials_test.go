package dash

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func deniedRow(subject string, count int64) admin.Denied {
	return admin.Denied{Key: store.Key{Subject: subject, Name: "token-bucket/1m"}, Count: count}
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
			r := d.feed.rows[source.OwnID(deniedRow(subject, 0).Key)]
			if got := r.DeniedRate(); math.Abs(got-want) > want*0.01 {
				t.Fatalf("after %d s %s is denied %.2f a second, want %g", second, subject, got, want)
			}
			if !r.IsDenied(d.now) {
				t.Fatalf("after %d s %s is not denied", second, subject)
			}
		}
	}
	if text := d.View(); !strings.Contains(text, "8.0 denied/s of 2 keys") {
		t.Errorf("it says:\n%s", text)
	}
	for range figures.Lately + 1 {
		d.second()
	}
	if text := d.View(); !strings.Contains(text, ", 0 denied/s of 0 keys") || strings.Contains(text, deniedSign) {
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
	}, func(o *Options) { o.MaxKeys = 5 })
	hourly := admin.Denied{Key: store.Key{Subject: "user:00", Name: "token-bucket/1h"}, Count: 2}
	d.deny(admin.Denials{Rows: []admin.Denied{hourly, deniedRow("nobody", 90)}})
	d.second()
	d.second()
	if want := "[nobody] user:00 user:49 user:48 user:47"; d.subjects() != want {
		t.Errorf("it shows %s, want %s", d.subjects(), want)
	}
	r := d.feed.rows[source.OwnID(hourly.Key)]
	if r.Used == 0 || r.Limit.Count != 100 {
		t.Errorf("of a key that is denied it knows %d of %d", r.Used, r.Limit.Count)
	}
	d.press("<enter>")
	if text := d.View(); !strings.Contains(text, "denied") {
		t.Errorf("everything about it:\n%s", text)
	}
}

// A little more or less does not make rows jump.
func TestRatesThatAreAlmostTheSameDoNotMoveRows(t *testing.T) {
	d := begin(t, nil, nil)
	first := ""
	for second := range 120 {
		a, b := int64(100), int64(104)
		if second%20 > 9 {
			a, b = b, a
		}
		d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("a", a), deniedRow("b", b)}})
		d.second()
		if second == 2 {
			first = d.subjects()
		}
		if second > 2 && d.subjects() != first {
			t.Fatalf("after %d s it shows %s, want %s", second, d.subjects(), first)
		}
	}
	for range 12 {
		d.deny(admin.Denials{Rows: []admin.Denied{deniedRow("a", 200), deniedRow("b", 100)}})
		d.second()
	}
	if d.subjects() != "[a] b" {
		t.Errorf("a is denied twice as often, and it shows %s", d.subjects())
	}
}

// brokenDenials is a table that cannot be read.
type brokenDenials struct{ admin.DenialTable }

func (brokenDenials) Denials(context.Context, time.Duration) (admin.Denials, error) {
	return admin.Denials{}, fmt.Errorf("%w: no permissions", store.ErrRefused)
}

func TestDenialsThatCannotBeRead(t *testing.T) {
	d := begin(t, three, func(o *Options) { o.Denials = brokenDenials{} })
	d.second()
	if text := d.View(); !strings.Contains(text, "denials not known") || !strings.Contains(text, "no permissions") ||
		!strings.Contains(text, "10/10") {
		t.Errorf("it says:\n%s", text)
	}
	d = begin(t, three, func(o *Options) { o.Denials = nil })
	if text := d.View(); strings.Contains(text, "denied") || strings.Contains(text, "DENIED") {
		t.Errorf("of a store without denials it says:\n%s", text)
	}
}

// The table has shorter names for long keys.
func TestDenialsOfALongKey(t *testing.T) {
	key := store.Key{Subject: strings.Repeat("long", 100), Name: "token-bucket/1m"}
	d := begin(t, func(d *driver) { d.take(key, "10/1m", 5) }, nil)
	row := admin.Denied{Key: key, Count: 9}
	row.Shorten()
	d.deny(admin.Denials{Rows: []admin.Denied{row}})
	d.second()
	if len(d.keys.rows) != 1 || d.keys.rows[0].Key != key || d.keys.rows[0].DeniedRate() == 0 {
		t.Errorf("it shows %s", d.subjects())
	}
}

func TestDenialsThatAreNotExactAreMarked(t *testing.T) {
	for _, test := range []struct {
		add  admin.Denials
		want string
	}{
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}}, " 10 denied/s of 1 key "},
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}, Lost: true}, " ≥10 denied/s of 1 key "},
		{admin.Denials{Rows: []admin.Denied{deniedRow("a", 10)}, Others: 4}, " ≥10 denied/s of ≥1 keys "},
	} {
		d := begin(t, nil, nil)
		d.deny(test.add)
		d.second()
		if text := d.View(); !strings.Contains(text, test.want) {
			t.Errorf("of %+v it says\n%s\nwant %q", test.add, text, test.want)
		}
	}
}
