package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// placer finds what was admitted and should not have been.
type placer interface {
	// place takes units that were admitted from lo to hi. Neither is before that of units that
	// were placed before. It returns how many more are too many for sure.
	place(lo, hi store.Instant, units int64) (tooMany int64)
	// spare returns how many more units would have been placed at hi, the last one.
	spare(hi store.Instant) int64
	// used returns the least that can be in use at every instant up to hi, by what was placed.
	used(hi store.Instant) int64
	// fits returns the earliest instant, not before at, at which so many units can fit.
	fits(units int64, at store.Instant) store.Instant
	// uncertain says that a request has begun whose fate is not known, and which can be decided
	// until an instant.
	uncertain(until store.Instant)
	clone() placer
}

// kindest is the model that charges each unit as early as it can have been charged, and none
// that would be too much. With all algorithms but windows from the first request, a unit
// charged earlier leaves no less room at any later instant. So what does not fit here does
// not fit whatever the true instants were.
type kindest struct{ state store.State }

// place charges units at the earliest instants from lo to hi at which they fit, not before
// those that were placed already. It returns how many do not fit.
func (k *kindest) place(limit *store.Limit, lo, hi store.Instant, units int64) (tooMany int64) {
	at, capacity := max(lo, k.state.Time), limit.Capacity()
	for {
		k.align(limit, at)
		if fit := min(units, capacity-k.state.Used(at)); fit > 0 {
			k.state.Charge(*limit, fit, at)
			units -= fit
		}
		if units == 0 {
			return 0
		}
		next := k.earliest(limit, 1, at)
		if next > hi {
			return units
		}
		// Up to the end of a stretch it makes no difference when a unit is charged, so
		// that several are charged at once.
		fit := min(units, capacity-k.state.Used(min(hi, endOfStretch(limit, next))))
		at = k.earliest(limit, fit, at)
		k.align(limit, at)
		k.state.Charge(*limit, fit, at)
		if units -= fit; units == 0 {
			return 0
		}
	}
}

// align lets the windows of a counter that rounds down begin at whole periods, where its rule would begin them with
// the next request.
func (k *kindest) align(limit *store.Limit, at store.Instant) {
	if limit.Algorithm != store.SlidingCounter || !limit.FromFirst {
		return
	}
	if period := periodOf(limit); k.state.IsZero() || at-k.state.Time >= 2*period {
		k.state = store.State{Limit: *limit, Time: at - at%period}
	}
}

// early is the kindest model as a [placer].
type early struct {
	kindest
	limit *store.Limit
}

func (e *early) place(lo, hi store.Instant, units int64) (tooMany int64) {
	return e.kindest.place(e.limit, lo, hi, units)
}

func (e *early) spare(hi store.Instant) int64 { return e.limit.Capacity() - e.state.Used(hi) }

func (e *early) used(hi store.Instant) int64 { return e.state.Used(max(hi, e.state.Time)) }

func (e *early) fits(units int64, at store.Instant) store.Instant {
	return e.earliest(e.limit, units, max(at, e.state.Time))
}

func (e *early) uncertain(store.Instant) {} // it may not have been charged, which is kinder

func (e *early) clone() placer { return &early{kindest{*e.state.Clone()}, e.limit} }

// earliest returns the first instant, not before at, at which that many units fit.
func (k *kindest) earliest(limit *store.Limit, units int64, at store.Instant) store.Instant {
	request := store.Request{Limit: *limit, Cost: units}
	answer := k.state.Answer(&request, at, false)
	return at + store.Instant(answer.RetryAfter/time.Microsecond)
}

// endOfStretch returns the last instant for which a unit charged to a full key at an instant is
// as good as one charged then.
func endOfStretch(limit *store.Limit, at store.Instant) store.Instant {
	if limit.Algorithm.HasBurst() && limit.Refill == 0 {
		return maxInstant // what leaks does so in any case
	}
	if limit.Kind().CountsEachUnit() {
		return at
	}
	width := widthOf(limit)
	return at - at%width + width - 1
}
