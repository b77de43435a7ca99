package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // not every host that runs the tests has zones

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// calendarWindows checks windows of calendars at their bounds, and one microsecond and one millisecond beside them.
func calendarWindows(t *testing.T, h Harness) {
	var now time.Time
	backend := h.New(t, func() time.Time { return now })
	ask := func(op store.Op, reqs ...store.Request) []store.Decision {
		t.Helper()
		decisions := make([]store.Decision, len(reqs))
		if err := backend.Decide(context.Background(), op, reqs, decisions); err != nil {
			t.Fatalf("%s of %+v at %s: %v", op, reqs, now, err)
		}
		return decisions
	}
	for i, window := range []struct{ of, begin, end string }{
		{"1d,tz=Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},  // 23 hours
		{"1d,tz=Europe/Berlin", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},  // 25 hours
		{"1d,tz=America/Havana", "2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"}, // without a midnight
		{"1d,tz=America/Havana", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}, // with two
		{"1d,tz=America/Santiago", "2026-04-04T00:00:00-03:00", "2026-04-05T00:00:00-04:00"},
		{"1d,tz=Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00"},
		{"1d,tz=UTC", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"1w,tz=Europe/Berlin", "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"},
		{"1mo,tz=Europe/Berlin", "2026-02-01T00:00:00+01:00", "2026-03-01T00:00:00+01:00"},
		{"1mo,tz=Europe/Berlin", "2028-02-01T00:00:00+01:00", "2028-03-01T00:00:00+01:00"},
		{"1mo,tz=Europe/Berlin", "2026-12-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"},
		{"3mo,tz=America/St_Johns", "2026-01-01T00:00:00-03:30", "2026-04-01T00:00:00-02:30"},
		{"1y,tz=UTC", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"1y,tz=Asia/Almaty", "2024-01-01T00:00:00+06:00", "2025-01-01T00:00:00+05:00"},
	} {
		limit := inCalendar(10, window.of)
		begin, _ := time.Parse(time.RFC3339, window.begin)
		end, _ := time.Parse(time.RFC3339, window.end)
		req := store.Request{Key: store.Key{Subject: fmt.Sprintf("window:%d", i), Name: "limit"}, Limit: limit, Cost: 1}
		for _, before := range []time.Duration{time.Millisecond, time.Microsecond} { // in the window before
			now = begin.Add(-before)
			if d := ask(store.Take, req)[0]; d.ResetAfter != before {
				t.Errorf("%s: %s before %s: %+v", window.of, before, window.begin, d)
			}
		}
		now = begin
		first := ask(store.Take, req)[0]
		if first.Used != 1 || first.ResetAfter != end.Sub(begin) || first.Remaining != 9 {
			t.Errorf("%s at %s: %+v, want a window until %s", window.of, window.begin, first, window.end)
		}
		req.Cost = 9
		for n, after := range []time.Duration{time.Microsecond, end.Sub(begin) / 2} {
			now = begin.Add(after)
			if d := ask(store.Take, req)[0]; d.Allowed != (n == 0) || d.Used != 10 {
				t.Errorf("%s: %s after %s: %+v", window.of, after, window.begin, d)
			}
		}
		foundUntil(t, backend, req.Key, now, end)
		for _, before := range []time.Duration{time.Millisecond, time.Microsecond} {
			now = end.Add(-before)
			if d := ask(store.Take, req)[0]; d.Allowed || d.RetryAfter != before || d.ResetAfter != before {
				t.Errorf("%s: %s before %s: %+v", window.of, before, window.end, d)
			}
		}
		now = end
		if d := ask(store.Take, req)[0]; !d.Allowed || d.Used != 9 {
			t.Errorf("%s at %s: %+v", window.of, window.end, d)
		}
		// A clock that goes back over the bound is no time that passes.
		now = end.Add(-time.Millisecond)
		if d := ask(store.Peek, req)[0]; d.Used != 9 || d.Allowed {
			t.Errorf("%s with a clock that went back: %+v", window.of, d)
		}
		now = end.Add(time.Millisecond)
		if d := ask(store.Refund, req)[0]; d.Refunded != 9 || d.Used != 0 {
			t.Errorf("%s refunded: %+v", window.of, d)
		}
	}
	calendarTogether(t, &now, ask)
}

// foundUntil checks that a scan finds a key with the end of its window.
func foundUntil(t *testing.T, backend store.Store, key store.Key, now, end time.Time) {
	t.Helper()
	for entry, err := range scan(context.Background(), backend, admin.Query{Keys: []store.Key{key}}) {
		if err != nil {
			t.Fatal(err)
		}
		until, has := entry.Limit.WindowEnd(store.InstantOf(now))
		if !has || until.Format(time.RFC3339) != end.Format(time.RFC3339) || entry.Used != 10 || entry.ResetAfter != end.Sub(now) {
			t.Errorf("the scan finds %s until %s, want %s: %+v", entry.Limit, until, end.Format(time.RFC3339), entry)
		}
	}
}

// calendarTogether checks calls of several limits, in windows of different bounds and in others, and bounds that change.
func calendarTogether(t *testing.T, now *time.Time, ask func(op store.Op, reqs ...store.Request) []store.Decision) {
	*now = time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC) // December in Berlin, November in New York
	name := func(name string, limit store.Limit, cost int64) store.Request {
		return store.Request{Key: store.Key{Subject: "together", Name: name}, Limit: limit, Cost: cost}
	}
	east, west := inCalendar(10, "1mo,tz=Europe/Berlin"), inCalendar(10, "1mo,tz=America/New_York")
	plain := store.Limit{Algorithm: store.SlidingLog, Count: 10, Period: time.Hour}
	all := []store.Request{name("east", east, 4), name("plain", plain, 4), name("west", west, 4)}
	token := func(text string) []store.Request {
		reqs := append([]store.Request(nil), all...)
		for i := range reqs {
			reqs[i].Token, reqs[i].TokenTTL = text, store.MaxTokenTTL
		}
		return reqs
	}
	first := ask(store.Take, token("t")...)
	eastEnd, _ := east.WindowEnd(store.InstantOf(*now))
	westEnd, _ := west.WindowEnd(store.InstantOf(*now))
	if !store.AllAllowed(first) || first[0].ResetAfter != eastEnd.Sub(*now) || first[2].ResetAfter != westEnd.Sub(*now) {
		t.Errorf("together: %+v", first)
	}
	*now = westEnd.Add(-time.Microsecond)
	ask(store.Charge, all[2]) // 8 used
	if d := ask(store.Take, all[2])[0]; d.Allowed || d.RetryAfter != time.Microsecond {
		t.Errorf("a take beside a charge: %+v", d)
	}
	*now = westEnd
	// Another window of that limit, and the same token: it is remembered, and its units are of the window before.
	if d := ask(store.Take, token("t")...); !d[0].Repeated || d[0].Used != 4 || d[2].Used != 0 {
		t.Errorf("a token in the next window: %+v", d)
	}
	if d := ask(store.Settle, token("t")...); d[0].Used != 4 || d[2].Used != 0 || d[2].Granted != 4 {
		t.Errorf("settled in the next window: %+v", d)
	}
	if d := ask(store.TakeUpTo, name("up to", east, 30))[0]; d.Granted != 10 {
		t.Errorf("what fits: %+v", d)
	}
	if d := ask(store.Adjust, name("up to", east, 3))[0]; d.Used != 3 {
		t.Errorf("adjusted: %+v", d)
	}

	// Bounds that change keep the usage while the window of the record holds, and those of a charge count from then on.
	moved := func(cost int64, limit store.Limit) store.Request { return name("moved", limit, cost) }
	*now = eastEnd.Add(-time.Hour)
	ask(store.Take, moved(4, east))
	if d := ask(store.Peek, moved(1, west))[0]; d.Used != 4 || d.ResetAfter != time.Hour {
		t.Errorf("a peek under other bounds: %+v", d)
	}
	if d := ask(store.Take, moved(3, west))[0]; d.Used != 7 || d.ResetAfter != time.Hour+6*time.Hour {
		t.Errorf("a charge under other bounds: %+v", d)
	}
	*now = eastEnd
	if d := ask(store.Peek, moved(1, east))[0]; d.Used != 7 || d.ResetAfter != 5*time.Hour+time.Hour {
		t.Errorf("after the former end: %+v", d)
	}
	day := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: 24 * time.Hour}
	if d := ask(store.Take, moved(1, day))[0]; d.Used != 8 {
		t.Errorf("a charge under a window without a zone: %+v", d)
	}
	if d := ask(store.Take, moved(1, west))[0]; d.Used != 9 {
		t.Errorf("and back: %+v", d)
	}
	*now = eastEnd.Add(6 * time.Hour)
	if d := ask(store.Peek, moved(1, west))[0]; d.Used != 0 || !d.Allowed {
		t.Errorf("after the end: %+v", d)
	}
}
