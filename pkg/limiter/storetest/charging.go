package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata" // not every host that runs the tests has zones

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// token returns the token of the next call, often none.
func (c *comparison) token(op store.Op) string {
	if op == store.Adjust || op != store.Settle && c.r.IntN(2) == 0 {
		return ""
	}
	return c.reqs[0].Key.Subject + ":" + string(rune('0'+c.r.IntN(2)))
}

// charging makes req part of a call that charges: with the token, if there is one, and then mostly with the
// remembered cost, or with a cost that does not fit.
func (c *comparison) charging(op store.Op, req *store.Request, token string, upTo int64) {
	most := req.Limit.Algorithm.MaxCount()
	if req.Limit.Algorithm == 0 {
		most = store.MaxCount
	}
	switch op {
	case store.TakeUpTo:
		req.Cost = upTo
	case store.Charge:
		switch c.r.IntN(4) {
		case 0:
			req.Cost = 1 + c.r.Int64N(most)
		case 1:
			req.Cost = 1 + c.r.Int64N(min(most, 3*req.Limit.Capacity()))
		}
	case store.Settle:
		req.Cost = c.r.Int64N(1 + min(most, 2*req.Limit.Capacity()))
	default: // its current cost
	}
	req.Token, req.TokenTTL = token, 0
	if token == "" {
		return
	}
	if record := c.tokens[token]; op == store.TakeUpTo && record.Op == op && !record.IsZero() {
		req.Cost = record.Charges[0].Cost
	}
	req.TokenTTL = []time.Duration{time.Millisecond, time.Second, time.Hour, store.MaxTokenTTL}[int(upTo)%4]
	if record := c.tokens[token]; !record.IsZero() && c.r.IntN(4) > 0 {
		for i := range c.reqs {
			if &c.reqs[i] != req || i >= len(record.Charges) {
				continue
			}
			charge := &record.Charges[i]
			if op == store.TakeUpTo {
				continue // it has one cost
			}
			if op != store.Settle && (charge.Cost <= req.Limit.Capacity() || op != store.Take && op != store.Peek) {
				req.Cost = charge.Cost
			} else if op == store.Settle && record.Settled {
				req.Cost = charge.Real
			}
		}
	}
}

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

const (
	goroutines = 64
	attempts   = 20 // of each goroutine
	hotCount   = 1000
)

// concurrentTakesEqualASerialOrder takes from one key of 1000/1h with 64 goroutines. With a clock that stands still
// exactly 1000 are allowed; with the store's own clock also those that leak meanwhile.
func concurrentTakesEqualASerialOrder(t *testing.T, h Harness, kind store.Kind) {
	limit := LimitOf(kind, hotCount, time.Hour)

	still := h.New(t, func() time.Time { return epoch })
	if allowed := storm(t, still, limit); allowed != hotCount {
		t.Errorf("at one instant %d of %d takes were allowed, want %d", allowed, goroutines*attempts, hotCount)
	}

	running := h.New(t, nil)
	begin := time.Now()
	allowed := storm(t, running, limit)
	end := time.Now()
	most := int64(hotCount)
	switch {
	case kind.Algorithm().HasBurst():
		// A microsecond of rounding at each end, and the step of the clock.
		most += int64(end.Sub(begin)/(limit.Period/hotCount)) + 1
	case end.Truncate(limit.Period).After(begin.Truncate(limit.Period)):
		most *= 2 // a window ended meanwhile
	}
	if allowed < hotCount || allowed > most {
		t.Errorf("within %s %d takes were allowed, want %d to %d", end.Sub(begin), allowed, hotCount, most)
	}
}

func storm(t *testing.T, backend store.Store, limit store.Limit) int64 {
	t.Helper()
	l := storecall.New(backend)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for range attempts {
				d, err := l.Take(context.Background(), store.Key{Subject: "hot"}, limit, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	d, err := l.Peek(context.Background(), store.Key{Subject: "hot"}, limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.Used > hotCount {
		t.Errorf("%d in use of %d", d.Used, hotCount)
	}
	return allowed.Load()
}
