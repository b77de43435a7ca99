package loadgen

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Clock is the clock of a store in a simulation: it shows the instant of the request under way. Now is safe for
// concurrent use.
type Clock struct {
	at     atomic.Int64
	timers []timer // in the order of their instants
}

// timer calls a function at an instant.
type timer struct {
	at store.Instant
	do func()
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return store.Instant(c.at.Load()).Time() }

// Background calls f when the clock has advanced by delay, at once if delay is 0. It is for limiter.Leases.
func (c *Clock) Background(delay time.Duration, f func()) {
	if delay <= 0 {
		f()
		return
	}
	t := timer{store.Instant(c.at.Load() + delay.Microseconds()), f}
	i, _ := slices.BinarySearchFunc(c.timers, t.at+1, func(t timer, at store.Instant) int { return cmp.Compare(t.at, at) })
	c.timers = slices.Insert(c.timers, i, t)
}

// set advances the clock to an instant, and calls the timers until then.
func (c *Clock) set(at store.Instant) {
	for len(c.timers) > 0 && c.timers[0].at <= at {
		t := c.timers[0]
		c.timers = slices.Delete(c.timers, 0, 1)
		c.at.Store(int64(t.at))
		t.do()
	}
	c.at.Store(int64(at))
}
