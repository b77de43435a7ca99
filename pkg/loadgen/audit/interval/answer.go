package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Answer is what became of a request.
type Answer uint8

const (
	// Admitted: the request was let through, and its cost counts.
	Admitted Answer = iota
	// Denied: this limit turned it away.
	Denied
	// Unknown: no answer came. It may have been let through and counted, or not, until a minute
	// after it was given up.
	Unknown
	// Uncertain: it was turned away, perhaps by another limit that was decided together with
	// this one. It may have been counted before, or not.
	Uncertain
)

const maxInstant = store.Instant(1<<63 - 1)

// periodOf returns a limit's period in instants.
func periodOf(limit *store.Limit) store.Instant {
	return store.Instant(limit.Period / time.Microsecond)
}

// drift is by which part of it two clocks may differ about how long something takes: 500 millionths,
// the most by which the kernel adjusts a clock.
const drift = 2000

// fastest returns a limit as it may look from here if the other side's clock runs fast, and slowest
// if it runs slow. Where windows are aligned, that moves their phase instead.
func fastest(limit *store.Limit) *store.Limit { return stretched(limit, -1) }

func slowest(limit *store.Limit) *store.Limit { return stretched(limit, 1) }

func stretched(limit *store.Limit, by time.Duration) *store.Limit {
	if aligned(limit) {
		return limit
	}
	l := *limit
	l.Period += by * (limit.Period / drift).Truncate(time.Microsecond)
	return &l
}

// aligned reports whether a limit has windows that are aligned to the epoch.
func aligned(limit *store.Limit) bool {
	return limit.Algorithm == store.SlidingCounter || limit.Algorithm == store.FixedWindow && !limit.FromFirst
}
