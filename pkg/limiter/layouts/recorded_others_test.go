package layouts

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestRecordedLaravel holds what we say of Laravel's two limiters to what version 8.83 said. The
// RateLimiter tells a whole second at which it allows again, and allows when the timer's key is gone,
// which is less than a second later or earlier.
func TestRecordedLaravel(t *testing.T) {
	eachRecorded(t, "laravel", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key("laravel_database_", ""), s.limit(t)
		if storeKey == "" {
			if !*s.Take.Allowed {
				t.Fatalf("there is no key, and the limiter says %+v", s.Take)
			}
			return
		}
		if layout, err := s.claimed(t, storeKey); layout != "laravel" {
			t.Errorf("%s is claimed by %q: %v", storeKey, layout, err)
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, laravel{}, storeKey, limit, now) }
		first, last := at(s.At), at(s.Until)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
		switch {
		case s.Case == "limiter":
			checkBetween(t, "used", *s.Peek.Used, first.Used, last.Used)
			checkBetween(t, "remaining", *s.Peek.Remaining, first.Remaining, last.Remaining)
			checkBetween(t, "reset", *s.Peek.Retry, last.ResetAfter.Seconds()-1, first.ResetAfter.Seconds()+1)
			if retry := first.RetryAfter; !*s.Take.Allowed && retry != first.ResetAfter {
				t.Errorf("retry is %s, and reset %s", retry, first.ResetAfter)
			}
		case last.Used > 0: // else it swaps the two, and nobody has to be told
			checkBetween(t, "remaining", max(0, *s.Peek.Remaining), first.Remaining, last.Remaining)
			if ends := s.At + store.Instant(first.ResetAfter/time.Microsecond); float64(ends) != *s.Peek.Reset*1e6 {
				t.Errorf("the window ends at %d, and the limiter says %v", ends, *s.Peek.Reset)
			}
		}
	})
}

// TestRecordedRackAttack holds what we say of Rack::Attack's counters and bans to what version
// 6.6.1 said. It tells when to retry in whole seconds of a clock that it cuts to whole seconds.
func TestRecordedRackAttack(t *testing.T) {
	eachRecorded(t, "rack-attack", func(t *testing.T, s *recordedState) {
		limit := s.limit(t)
		for i := range s.Keys {
			if layout, err := s.claimed(t, s.Keys[i].Key); layout != "rack-attack" {
				t.Errorf("%s is claimed by %q: %v", s.Keys[i].Key, layout, err)
			}
		}
		window := func(now store.Instant) int64 { return int64(now) * 1000 / int64(limit.Period) }
		if window(s.Until) != window(s.Taken) {
			return // the take may be of either
		}
		counter := func(now store.Instant) *admin.Entry {
			what := s.Case + ":count:"
			if s.Case == "throttle" {
				what = "req/ip:"
			}
			return s.entry(t, rackAttack{}, fmt.Sprintf("rack::attack:%d:%s%s", window(s.Until), what, s.ID), limit, now)
		}
		entry := counter(s.Until)
		if s.Case == "throttle" {
			if *s.Take.Used != entry.Used {
				t.Errorf("%d are used, and the limiter says %d", entry.Used, *s.Take.Used)
			}
			s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, counter)
			if s.Take.Retry != nil {
				checkBetween(t, "retry", *s.Take.Retry, counter(s.Taken).RetryAfter.Seconds(), entry.RetryAfter.Seconds()+1)
			}
			return
		}
		ban := func(now store.Instant) *admin.Entry {
			return s.entry(t, rackAttack{}, "rack::attack:"+s.Case+":ban:"+s.ID, store.Limit{}, now)
		}
		s.checkAllowed(t, !*s.Peek.Banned, s.At, s.Until, ban)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, ban)
		if *s.Take.Allowed && *s.Take.Banned != (entry.Remaining <= 1) {
			t.Errorf("%+v, and the limiter bans: %v", entry, *s.Take.Banned)
		}
	})
}
