package interval

import (
	"math"
	"slices"
	"sort"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// possible is what one key may hold: each unit is charged as late as it can have been, and what is uncertain too. A
// unit charged later leaves no more room at any instant after. So a denial for which there is room here, at every
// instant at which it can have been decided, was wrong whatever the true instants were.
//
// It is followed twice: free, if denied requests are not charged, and charged, if they are, as many limiters do.
type possible struct {
	limit         *store.Limit
	free, charged filled
	// begun is the units of intervals that have begun and not ended, begunDenials those of denials, and asked all that
	// have begun.
	begun, begunDenials, asked int64
	// denials have no reason yet, in the order in which they began.
	denials []*request
	// denied is the last denial that has ended, nil if none has. Windows that hold what is admitted after it began
	// later: turned is the first such answer, and whoever asks after that finds only what was charged since full can
	// have been decided.
	denied       *request
	turned, full store.Instant
	// dearest is the most that a denied request asked for. In windows it may have been charged.
	dearest int64
}

func newPossible(limit *store.Limit) possible {
	return possible{limit: limit, free: newFilled(limit), charged: newFilled(limit)}
}

// usedBefore charges all of the limit at an instant. Where denied requests are charged, there may have been far more.
func (p *possible) usedBefore(at store.Instant) {
	const manyTimes = 1000
	capacity := p.limit.Capacity()
	p.free.charge(capacity, at)
	p.charged.charge(manyTimes*capacity, at)
}

// begin takes a request at the first instant at which it can have been decided.
func (p *possible) begin(r *request) {
	p.asked += r.cost
	if r.answer == Denied {
		p.begunDenials += r.cost
		p.dearest = max(p.dearest, r.cost)
		p.denials, r.free, r.charged = append(p.denials, r), true, true
		if p.full != 0 && r.lo >= p.turned {
			p.free.late.before(p.full)
		}
	} else {
		p.begun += r.cost
		if p.limit.Algorithm == store.FixedWindow && r.answer == Admitted && p.denied != nil &&
			r.cost >= p.denied.cost && r.lo >= p.denied.hi && p.denied.lo > p.full {
			p.turned, p.full = r.hi, p.denied.lo
		}
	}
	if len(p.denials) == 0 {
		return
	}
	free, charged, capacity := p.free.used(r.lo)+p.begun, p.charged.used(r.lo)+p.begun+p.begunDenials,
		p.limit.Capacity()
	rest := p.denials[:0]
	for _, d := range p.denials {
		cost := d.cost
		if p.limit.Algorithm == store.FixedWindow {
			cost = p.dearest
		}
		d.free = d.free && free+cost <= capacity
		d.charged = d.charged && charged <= capacity // it is among those itself
		if d.free || d.charged {
			rest = append(rest, d)
		}
	}
	p.denials = rest
}

// end takes a request at the last instant at which it can have been decided.
func (p *possible) end(r *request) {
	p.charged.charge(r.cost, r.hi)
	if r.answer == Denied {
		p.begunDenials -= r.cost
		p.denied = r
		return
	}
	p.begun -= r.cost
	p.free.charge(r.cost, r.hi)
}

// withoutReason reports whether a denial that has ended had no reason.
func (p *possible) withoutReason(denial *request) (free, charged bool) {
	p.denials = slices.DeleteFunc(p.denials, func(r *request) bool { return r == denial })
	return denial.free, denial.charged
}

// used returns the most that can be in use at an instant, with what has begun, if denied requests are charged or not.
func (p *possible) used(at store.Instant) int64 {
	used := p.free.used(at)
	if !p.limit.Algorithm.HasBurst() {
		used = max(used, p.charged.used(at)+p.begunDenials)
	}
	return used + p.begun
}

// filled is units that were charged, by the last instants at which they can have been.
type filled struct {
	limit  *store.Limit // with a period as long as it may look
	bucket store.State
	late   recent
	// fades is how long a unit of a counter fades after a period, if windows begin where it stays longest.
	fades store.Instant
}

func newFilled(limit *store.Limit) filled {
	l := *limit
	l.Period += (l.Period / drift).Truncate(1000)
	f := filled{limit: &l}
	if limit.Algorithm == store.SlidingCounter {
		f.fades = longest(limit)/store.Instant(max(1, limit.Slices)) + 1
	}
	f.late = newRecent(longest(limit) + f.fades)
	return f
}

func (f *filled) charge(units int64, at store.Instant) {
	if f.limit.Algorithm.HasBurst() {
		f.bucket.Charge(*f.limit, units, at)
		return
	}
	step := f.late.step
	f.late.add((at+step-1)/step*step, units)
}

// used rounds up. What is gone at an instant is forgotten.
func (f *filled) used(at store.Instant) int64 {
	f.late.at(at)
	return f.left(at)
}

// left is used, and forgets nothing.
func (f *filled) left(at store.Instant) (units int64) {
	if f.limit.Algorithm.HasBurst() {
		return f.bucket.Used(at)
	}
	if units = f.late.left(at); f.fades == 0 {
		return units
	}
	fading := 0.0
	for _, p := range f.late.pairs {
		switch left := p.at + f.late.span - at; {
		case left >= f.fades:
			return units + int64(math.Ceil(fading))
		case left > 0:
			units -= p.units
			fading += float64(p.units) * float64(left) / float64(f.fades)
		}
	}
	return units + int64(math.Ceil(fading))
}

// fits returns the earliest instant, not before at, from which on so many units fit.
func (f *filled) fits(units int64, at store.Instant) store.Instant {
	end := max(at, f.bucket.UnusedAt(at))
	if n := len(f.late.pairs); n > 0 {
		end = max(at, f.late.pairs[n-1].at+f.late.span)
	}
	return at + store.Instant(sort.Search(int(end-at), func(after int) bool {
		return f.left(at+store.Instant(after))+units <= f.limit.Capacity()
	}))
}
