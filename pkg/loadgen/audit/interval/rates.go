package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rates finds out that a limiter does not charge the requests that it denies: in some span of
// time so many were asked for that there would have been no room for one that was admitted.
type rates struct {
	span   store.Instant // what was charged within it counts at least 1/share of a unit
	share  int64
	ended  int64 // units of intervals that have ended
	begun  int64
	before pairs // how many had begun until an instant
}

// ratedKeys is of how many keys the rates are followed.
const ratedKeys = 16

// newRates returns nil for a limit of which nothing can be found out like this: what is denied by
// a full bucket is never charged, and when a window begins is not known here.
func newRates(limit *store.Limit) *rates {
	period := periodOf(limit)
	switch limit.Algorithm {
	case store.SlidingLog:
		return &rates{span: period, share: 1}
	case store.SlidingCounter:
		return &rates{span: period / 2, share: 2}
	default:
		return nil
	}
}

// begin takes a request that begins. It reports whether not all that was denied can have been charged.
func (r *rates) begin(limit *store.Limit, e *event) (deniedFree bool) {
	if r == nil || e.answer != Admitted && e.answer != Denied {
		return false
	}
	step := max(1, r.span/spanSteps)
	if last := r.before.last(); last == nil || last.at < e.lo {
		r.before.push(pair{e.lo - e.lo%step + step, r.begun})
	}
	r.begun += e.cost
	r.before.last().units = r.begun
	for first := r.before.first(); first.at < e.lo-r.span; first = r.before.first() {
		r.before.pop()
	}
	return e.answer == Admitted && r.within(e)/r.share+e.cost > limit.Capacity()
}

// within returns how many units were surely asked for in the span before a request.
func (r *rates) within(e *event) int64 {
	since := e.hi - r.span
	for i := r.before.head; i < len(r.before.list); i++ {
		if p := &r.before.list[i]; p.at > since {
			return r.ended - p.units
		}
	}
	return 0
}

func (r *rates) end(e *event) {
	if r != nil && (e.answer == Admitted || e.answer == Denied) {
		r.ended += e.cost
	}
}
