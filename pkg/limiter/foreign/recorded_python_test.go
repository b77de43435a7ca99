package foreign

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
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
		at := func(now limiter.Instant) *limiter.Entry { return s.entry(t, limits{}, storeKey, parsed.limit, now) }
		first, last := at(s.At), at(s.Until)
		if s.Case == "moving" {
			const second = 1_000_000
			first, last = at(s.At/second*second), at(s.Until/second*second)
		} else {
			s.checkAllowed(t, *s.Peek.Allowed, s.At, s.Until, at)
			rounded := func(e *limiter.Entry) float64 { return math.Floor(e.ResetAfter.Seconds() + 0.5) }
			seconds := func(now limiter.Instant) float64 { return math.Floor(float64(now) / 1e6) }
			checkBetween(t, "reset", *s.Peek.Reset, seconds(s.At)+rounded(last), seconds(s.Until)+rounded(first))
		}
		checkBetween(t, "remaining", *s.Peek.Remaining, first.Remaining, last.Remaining)
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
	})
}
