package store_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The turn of a leaky bucket comes when all that is queued has left at the rate of the limit that takes over,
// and not a microsecond before.
func TestTheTurnOfALeakyBucket(t *testing.T) {
	old := normal(t, store.Limit{Algorithm: store.LeakyBucket, Count: 3, Period: time.Second, Burst: 10})
	var s store.State
	take(&s, old, 2, 1e15)
	for _, test := range []struct {
		limit store.Limit
		after store.Instant
		want  time.Duration
	}{
		{old, 0, 666_667 * time.Microsecond}, // 2 at 3 a second
		{old, 1, 666_666 * time.Microsecond},
		{old, 400_000, 266_667 * time.Microsecond},
		{old, 666_666, time.Microsecond}, {old, 666_667, 0},
		{store.Limit{Count: 7, Period: time.Second}, 0, 285_715 * time.Microsecond},       // 2 at 7 a second
		{store.Limit{Count: 7, Period: time.Second}, 400_000, 114_286 * time.Microsecond}, // 0.8 at 7 a second
		{store.Limit{Count: 3, Period: time.Minute}, 400_000, 20 * time.Second},           // 1 whole, at 3 a minute
	} {
		limit := test.limit
		limit.Algorithm = store.LeakyBucket
		limit = normal(t, limit)
		if delay := s.Delay(&limit, 1e15+test.after); delay != test.want {
			t.Errorf("under %s, %d µs later: the turn comes after %s, want %s", limit, test.after, delay, test.want)
		}
	}
}

// A window has its first microsecond, and not that of the next one.
func TestWindowsBeginByTheClock(t *testing.T) {
	const period, start = store.Instant(60_000_000), store.Instant(1_800_000_000_000_000) // a whole minute
	fixed := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	for _, test := range []struct {
		limit           store.Limit
		charged, looked store.Instant
		want            int64
	}{
		{fixed, start, start, 7}, {fixed, start, start + period - 1, 7}, {fixed, start, start + period, 0},
		{fixed, start + period - 1, start + period - 1, 7}, {fixed, start + period - 1, start + period, 0},
	} {
		var s store.State
		s.Charge(test.limit, 7, test.charged)
		if got := s.Used(test.looked); got != test.want {
			t.Errorf("%s: charged at %d, %d are in use at %d, not %d", test.limit, test.charged-start, got, test.looked-start, test.want)
		}
	}
}
