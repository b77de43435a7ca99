package layouts

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestRecordedLimits holds what we say of limits to what Python's limits 2.8.0 said. It tells
// the reset of a fixed window in whole seconds, which it rounds twice, and that of a moving
// window from its newest request on, where newer versions tell the oldest; so that is left out.
// Its stats of a moving window count from a whole second on, as we do at a whole second.
func TestRecordedLimits(t *testing.T) {
	eachRecorded(t, "limits", func(t *testing.T, s *recordedState) {
		if len(s.Keys) == 0 {
			count, _, _ := strings.Cut(s.Limit, "/")
			if strconv.FormatInt(*s.Peek.Remaining, 10) != count || !*s.Take.Allowed {
				t.Fatalf("there is no key, and the limiter says %+v", s.Peek)
			}
			return
		}
		storeKey := s.Keys[0].Key
		if layout, err := s.claimed(t, storeKey); layout != "limits" {
			t.Errorf("%s is claimed by %q: %v", storeKey, layout, err)
		}
		parsed, _ := limits{}.parse(storeKey, true)
		at := func(now store.Instant) *admin.Entry { return s.entry(t, limits{}, storeKey, parsed.limit, now) }
		first, last := at(s.At), at(s.Until)
		if s.Case == "moving" {
			const second = 1_000_000
			first, last = at(s.At/second*second), at(s.Until/second*second)
		} else {
			s.checkAllowed(t, *s.Peek.Allowed, s.At, s.Until, at)
			rounded := func(e *admin.Entry) float64 { return math.Floor(e.ResetAfter.Seconds() + 0.5) }
			seconds := func(now store.Instant) float64 { return math.Floor(float64(now) / 1e6) }
			checkBetween(t, "reset", *s.Peek.Reset, seconds(s.At)+rounded(last), seconds(s.Until)+rounded(first))
		}
		checkBetween(t, "remaining", *s.Peek.Remaining, first.Remaining, last.Remaining)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
	})
}

// TestRecordedDRF holds what we say of throttles to what those of Django REST framework 3.14 said.
// Its clock is a float of seconds, which is not exact to the last digits of a µs.
func TestRecordedDRF(t *testing.T) {
	eachRecorded(t, "drf", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key(":1:throttle_", ""), s.limit(t)
		if storeKey == "" {
			if *s.Take.Used != 0 || !*s.Take.Allowed {
				t.Fatalf("there is no key, and the throttle says %+v", s.Take)
			}
			return
		}
		if layout, err := s.claimed(t, storeKey); layout != "drf" {
			t.Errorf("%s is claimed by %q: %v", storeKey, layout, err)
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, drf{}, storeKey, limit, now) }
		first, last := at(s.Until), at(s.Taken)
		checkBetween(t, "used", *s.Take.Used, first.Used, last.Used)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
		if s.Take.Retry != nil {
			const inexact = 2e-6
			checkBetween(t, "retry", *s.Take.Retry, first.RetryAfter.Seconds()+inexact, last.RetryAfter.Seconds()-inexact)
		}
		// The key tells the period.
		untold := s.entry(t, drf{}, storeKey, store.Limit{Count: limit.Count}, s.Until)
		if untold.Limit.Period != limit.Period || untold.Used != first.Used {
			t.Errorf("without the period it says %+v", untold)
		}
	})
}
