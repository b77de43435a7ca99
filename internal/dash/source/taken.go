package source

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// seen is what a key was at a look, from which the next look tells what was taken.
type seen struct {
	at    store.Instant
	used  int64
	limit store.Limit  // the recorded one; zero for a key that was unused
	state *store.State // nil if it was not read
	// resets is when the key is unused again if nothing is taken, and resetKnown whether that
	// is known.
	resets     store.Instant
	resetKnown bool
	other      bool // another limiter wrote it
}

func newSeen(e *admin.Entry) seen {
	return seen{at: e.At, used: e.Used, limit: e.LastLimit(), state: e.State, other: e.Layout != "",
		resets: e.At + store.Instant(e.ResetAfter/time.Microsecond), resetKnown: e.ResetKnown() && !NeverBegins(e)}
}

// NeverBegins reports whether another window never begins for an entry: windows that begin with the
// first request end with their key, and it never does.
func NeverBegins(e *admin.Entry) bool { return e.Limit.FromFirst && e.TTL < 0 }

// taken returns the units that were charged since s was seen.
func (s *seen) taken(now *seen) int64 {
	left := s.used // of what was used then
	switch {
	case now.other:
		return s.takenOfOther(now)
	case s.state != nil: // which says it exactly
		left = s.state.Used(now.at)
	case s.limit.Period > 0: // a large log, taken as even
		left -= s.evenly(now.at)
	}
	return max(0, now.used-left)
}

// evenly is how many of the units in use passed until now, if they were taken evenly.
func (s *seen) evenly(now store.Instant) int64 {
	elapsed := time.Duration(now-s.at) * time.Microsecond
	return int64(float64(s.used) * min(1, float64(elapsed)/float64(s.limit.Period)))
}

// takenOfOther is taken for a key of another limiter, of which there is no state.
func (s *seen) takenOfOther(now *seen) int64 {
	const clocks = store.Instant(1_000_000) // expiries are told in whole ms, and by several clocks
	switch now.limit.Algorithm {
	case store.TokenBucket, store.LeakyBucket: // each unit puts the end off by the time that it takes to flow back
		if !now.resetKnown || now.limit.Count <= 0 || now.limit.Period <= 0 {
			return max(0, now.used-s.used)
		}
		from := max(now.at, s.resets) // s.resets is 0 for a key that was unused
		perUnit := float64(now.limit.Period) / float64(time.Microsecond) / float64(now.limit.Count)
		return max(0, int64(math.Round(float64(now.resets-from)/perUnit)))
	case store.SlidingCounter, store.SlidingLog:
		if now.limit.Period > 0 && s.limit.Period > 0 {
			return max(0, now.used-s.used+s.evenly(now.at))
		}
		return max(0, now.used-s.used)
	default: // the others go on below
	}
	isNext := now.resetKnown && s.resetKnown && now.resets > s.resets+clocks
	if isNext || now.used < s.used { // another window has begun
		return now.used
	}
	return now.used - s.used
}
