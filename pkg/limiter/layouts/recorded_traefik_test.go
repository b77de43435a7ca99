package layouts

import (
	"math"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestRecordedTraefik holds what we say of buckets to what Traefik's script said at the same µs,
// of a copy of the bucket. It tells how long a request waits as text of 14 digits.
func TestRecordedTraefik(t *testing.T) {
	eachRecorded(t, "traefik", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key("rate:", ""), s.limit(t)
		if storeKey == "" {
			if s.Peek.Tokens != float64(limit.Burst-1) || !*s.Take.Allowed {
				t.Fatalf("there is no key, and Traefik says %+v", s.Peek)
			}
			return
		}
		if layout, err := s.claimed(t, storeKey); layout != "traefik" {
			t.Errorf("%s is claimed by %q: %v", storeKey, layout, err)
		}
		at := func(now store.Instant) *admin.Entry { return s.entry(t, traefik{}, storeKey, limit, now) }
		entry, tokens := at(s.Peek.Now), s.Peek.Tokens
		if *s.Peek.Allowed {
			tokens++ // it has taken one
		}
		if whole := int64(math.Floor(tokens)); entry.Used != limit.Burst-whole || entry.Remaining != max(0, whole) {
			t.Errorf("%+v, and Traefik has %v tokens", entry, tokens)
		}
		if entry.Allowed != *s.Peek.Allowed {
			t.Errorf("%+v, and Traefik says %+v", entry, s.Peek)
		}
		if wait := entry.Delay + entry.RetryAfter; (wait - time.Duration(s.Peek.DelayNs)).Abs() > 1 {
			t.Errorf("a request waits %s, and Traefik says %d ns", wait, s.Peek.DelayNs)
		}
		s.checkAllowed(t, *s.Take.Allowed, s.Until, s.Taken, at)
	})
}
