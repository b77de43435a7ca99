package interval

import (
	"cmp"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// request is a request and its answer.
type request struct {
	lo, hi store.Instant // the interval in which it was decided, both ends within
	key    uint32
	cost   int64
	answer Answer
	// reported is what the answer reported, nil if nothing; and truth what was true when it can have been decided
	// first.
	reported *Reported
	truth    truth
	// Of a denial no reason is known so far, if denied requests are not charged, or if they are.
	free, charged bool
}

// event is the first instant at which a request can have been decided, or the last one.
type event struct {
	*request
	at  store.Instant
	end bool
}

// compare puts events in order. At one instant intervals begin before others end, since they share that instant.
func (e event) compare(f event) int {
	switch {
	case e.at != f.at:
		return cmp.Compare(e.at, f.at)
	case e.end == f.end:
		return 0
	case e.end:
		return 1
	}
	return -1
}

// pair is units at an instant.
type pair struct {
	at    store.Instant
	units int64
}

// pairs is units by instants, in the order of those.
type pairs []pair

func (p *pairs) add(at store.Instant, units int64) {
	if n := len(*p); n > 0 && (*p)[n-1].at == at {
		(*p)[n-1].units += units
		return
	}
	*p = append(*p, pair{at, units})
}

// take takes up to most units of the first instant.
func (p *pairs) take(most int64) (at store.Instant, units int64) {
	first := &(*p)[0]
	at, units = first.at, min(most, first.units)
	if first.units -= units; first.units == 0 {
		*p = (*p)[1:]
	}
	return at, units
}

// steps is how many instants of a span are told apart, which bounds the memory.
const steps = 4096

// recent is units by instants, of the last span of time.
type recent struct {
	pairs
	span, step store.Instant
	units      int64
}

func newRecent(span store.Instant) recent { return recent{span: span, step: max(1, span/steps)} }

func (r *recent) add(at store.Instant, units int64) {
	if units > 0 {
		r.pairs.add(at, units)
		r.units += units
	}
}

// at forgets what is gone at an instant, and returns the units that are left.
func (r *recent) at(at store.Instant) int64 {
	for len(r.pairs) > 0 && r.pairs[0].at+r.span <= at {
		r.units -= r.pairs[0].units
		r.pairs = r.pairs[1:]
	}
	return r.units
}

// before forgets what lies before an instant.
func (r *recent) before(at store.Instant) { r.at(at + r.span - 1) }

// left returns the units that are left at an instant, and forgets nothing.
func (r *recent) left(at store.Instant) int64 {
	units := r.units
	for i := 0; i < len(r.pairs) && r.pairs[i].at+r.span <= at; i++ {
		units -= r.pairs[i].units
	}
	return units
}
