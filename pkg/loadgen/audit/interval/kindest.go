package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
		k.state.Charge(*limit, fit, at)
		if units -= fit; units == 0 {
			return 0
		}
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
	if limit.Algorithm.HasBurst() {
		return maxInstant // what leaks does so in any case
	}
	if limit.Kind().CountsEachUnit() {
		return at
	}
	width := periodOf(limit) / store.Instant(max(1, limit.Slices))
	return at - at%width + width - 1
}
