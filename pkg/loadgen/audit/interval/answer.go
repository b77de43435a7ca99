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

// Reported is what an answer said about the limit. What it did not say is [NotReported].
type Reported struct {
	// Remaining is how many units are left after the request.
	Remaining int64
	// RetryAfter is the time from the answer until the same request would be admitted, and ResetAfter that until there is
	// more, or until all is unused: services differ.
	RetryAfter, ResetAfter time.Duration
	// RetryWithin and ResetWithin are by how much these times may be off because they came as instants of another clock.
	RetryWithin, ResetWithin time.Duration
}

// NotReported is a figure that an answer did not report.
const NotReported = -1

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

// aligned reports whether the windows of a limit, or the intervals at which it is refilled, begin at a phase, whatever
// is asked for meanwhile.
func aligned(limit *store.Limit) bool {
	return limit.Algorithm == store.SlidingCounter || limit.Algorithm == store.FixedWindow && !limit.FromFirst || limit.Refill != 0
}

// widthOf returns the time after which a phase is the same again.
func widthOf(limit *store.Limit) store.Instant {
	if limit.Refill != 0 {
		return store.Instant(limit.Refill / time.Microsecond)
	}
	return periodOf(limit) / store.Instant(max(1, limit.Slices))
}

// ownPhase reports whether the windows of each key begin with its first request and follow each other from then on.
func ownPhase(limit *store.Limit) bool {
	return limit.Refill != 0 || limit.FromFirst && limit.Algorithm == store.SlidingCounter
}

// counted returns a limit as models count it, from a phase on.
func counted(limit *store.Limit) *store.Limit {
	if limit.Phase == 0 && !ownPhase(limit) {
		return limit
	}
	l := *limit
	l.Phase = 0
	if l.Algorithm == store.SlidingCounter {
		l.FromFirst = false
	}
	return &l
}

// unusedState returns the state of an unused key. Intervals of a bucket begin at whole ones, and not with its first
// request.
func unusedState(limit *store.Limit) (s store.State) {
	if limit.Refill != 0 {
		s.Limit, s.Rest = *limit, int64(widthOf(limit))
	}
	return s
}
