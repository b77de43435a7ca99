package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fullest is the model that charges each unit as late as it can have been charged, and those
// that are uncertain too. A unit charged later leaves no more room at any instant after. So a
// denial for which there is room here, at every instant at which it can have been decided, was
// wrong whatever the true instants were.
//
// Three suppositions are followed at once. Mostly they agree, and share one state.
type fullest struct {
	limit *store.Limit // how units are counted
	begun int64        // units of intervals that have begun and not ended
	asked int64        // units of all intervals that have begun and can have been charged
	// denials have no reason yet under some supposition, in the order in which they began.
	denials []openDenial
	ending  queue[ending]

	free store.State
	// charged is nil while it is the same as free.
	charged      *store.State
	begunDenials int64
	counted      uint64      // the denials up to this one are counted together
	delayed      queue[pair] // denied units to be charged, a little later than they must be
	// corrected is nil while it is the same as free.
	corrected   *store.State
	corrections queue[pair]
	begunWrong  int64

	lastEnd    store.Instant // of the intervals that have begun
	costs      costs
	afterFirst bool // only what was admitted begins a window
	sample     sample
	under      bool // any denial was wrong
}

// supposition is a set of suppositions.
type supposition uint8

const (
	// free: denied requests are not charged.
	free supposition = 1 << iota
	// charged: denied requests are charged as well, as many limiters do.
	charged
	// corrected: denied requests are not charged, and those that were denied wrongly are as if
	// they had been admitted, as late as any request that is under way may be. What still is
	// wrong then shows how many requests were, at least.
	corrected
)

// ending is a request at the last instant at which it can have been decided.
type ending struct {
	at     store.Instant
	cost   int64
	id     uint64
	answer Answer
}

// openDenial is a denial for which no reason is known so far under some suppositions.
type openDenial struct {
	id          uint64
	cost        int64
	unexplained supposition
}

// costs is what denied requests have asked for.
type costs struct{ least, most int64 }

func (c *costs) add(cost int64) {
	if c.least == 0 || cost < c.least {
		c.least = cost
	}
	c.most = max(c.most, cost)
}

// sample is a denial that is followed to its end, to see by how much it had a reason.
type sample struct {
	id   uint64
	cost int64
	most int64 // used, of all instants at which it can have been decided
}

// used returns the most units that can be in use at an instant, under each supposition.
func (f *fullest) used(at store.Instant) (isFree, isCharged, isCorrected int64) {
	isFree = f.free.Used(at) + f.begun
	isCharged, isCorrected = isFree, isFree
	if f.charged != nil {
		isCharged = f.charged.Used(at) + f.begun
	}
	isCharged += f.begunDenials
	if f.corrected != nil {
		isCorrected = f.corrected.Used(at) + f.begun
	}
	isCorrected += f.begunWrong
	if f.afterFirst && isFree == 0 {
		isCharged = 0
	}
	return isFree, isCharged, isCorrected
}

// begin takes a request at the first instant at which it can have been decided, which is not
// before that of another. countsDenials says whether charging the denied makes a difference.
func (f *fullest) begin(at, end store.Instant, e *event, countsDenials bool) {
	f.lastEnd = max(f.lastEnd, end)
	if e.answer != Denied || countsDenials {
		f.asked += e.cost
	}
	if e.answer != Denied {
		f.begun += e.cost
		if len(f.denials) > 0 || f.sample.id != 0 {
			f.explain(at, 0, countsDenials)
		}
		return
	}
	f.costs.add(e.cost)
	if f.sample.id == 0 {
		f.sample = sample{id: e.id, cost: e.cost}
	}
	f.denials = append(f.denials, openDenial{e.id, e.cost, free | charged | corrected})
	f.explain(at, len(f.denials)-1, countsDenials)
}

// usedBefore charges all of the limit at an instant, which is before any request is charged. Where
// denied requests are charged, a counter may hold far more than that in the period before, which
// then fills nearly all of the next one. In other algorithms more makes no difference.
func (f *fullest) usedBefore(at store.Instant) {
	const manyTimes = 1000
	capacity := f.limit.Capacity()
	f.lastEnd = max(f.lastEnd, at)
	f.begun += capacity
	f.ending.push(ending{at: at, cost: capacity, answer: Uncertain})
	if f.limit.Algorithm == store.SlidingCounter && capacity < 1<<40 {
		f.begunDenials += manyTimes * capacity
		f.delay(pair{at, manyTimes * capacity})
	}
}

// explain looks which denials, from one on, have a reason at an instant.
func (f *fullest) explain(at store.Instant, from int, countsDenials bool) {
	isFree, isCharged, isCorrected := f.used(at)
	f.sample.most = max(f.sample.most, isFree)
	capacity := f.limit.Capacity()
	for again := true; again; {
		again = false
		rest := f.denials[:from]
		for _, d := range f.denials[from:] {
			if isFree+d.cost > capacity {
				d.unexplained &^= free
			}
			if isCorrected+d.cost > capacity {
				d.unexplained &^= corrected
			}
			if d.unexplained&charged != 0 && isCharged+d.cost > capacity {
				d.unexplained &^= charged
				if countsDenials && d.id > f.counted { // from now on it can have been charged
					isCharged += d.cost
					f.begunDenials += d.cost
					again = true
				}
			}
			if d.unexplained != 0 {
				rest = append(rest, d)
			}
		}
		f.denials = rest
		from = 0
	}
}

// end takes a request at the last instant at which it can have been decided.
func (f *fullest) end(at store.Instant, e *event) {
	if e.answer != Denied && f.limit.Kind().CountsEachUnit() && f.free.Used(at) > min(f.limit.Count, maxLog) {
		at = f.coarsely(at)
	}
	if last := f.ending.last(); last != nil {
		at = max(at, last.at) // where the phase has become known better
	}
	f.ending.push(ending{at, e.cost, e.id, e.answer})
}

const (
	// maxLog is how many units a log tells apart exactly.
	maxLog = 1 << 16
	// coarse is how many instants of a period it tells apart then.
	coarse = 4096
)

// coarsely returns a somewhat later instant, which many units share, so that a log stays short.
func (f *fullest) coarsely(at store.Instant) store.Instant {
	step := max(1, periodOf(f.limit)/coarse)
	return (at + step - 1) / step * step
}

// settle judges and charges what was decided before an instant for sure.
func (f *fullest) settle(before store.Instant, countsDenials bool, t *totals) {
	for {
		e := f.ending.first()
		until := before
		if e != nil {
			until = min(before, e.at+1)
		}
		f.chargeDelayed(until)
		if e == nil || e.at >= before {
			return
		}
		if e.answer == Denied {
			f.judge(e, countsDenials, t)
		} else {
			f.begun -= e.cost
			f.free.Charge(*f.limit, e.cost, e.at)
			if f.charged != nil {
				f.charged.Charge(*f.limit, e.cost, e.at)
			}
			if f.corrected != nil {
				f.corrected.Charge(*f.limit, e.cost, e.at)
			}
		}
		f.ending.pop()
	}
}

// chargeDelayed charges denied units that were to be charged before an instant.
func (f *fullest) chargeDelayed(before store.Instant) {
	for d := f.delayed.first(); d != nil && d.at < before; d = f.delayed.first() {
		f.own(&f.charged).Charge(*f.limit, d.units, d.at)
		f.begunDenials -= d.units
		f.delayed.pop()
	}
	for c := f.corrections.first(); c != nil && c.at < before; c = f.corrections.first() {
		f.own(&f.corrected).Charge(*f.limit, c.units, c.at)
		f.begunWrong -= c.units
		f.corrections.pop()
	}
}

// judge finds a denial that has ended wrong, or not.
func (f *fullest) judge(e *ending, countsDenials bool, t *totals) {
	wrong := f.take(e.id)
	if wrong&free == 0 {
		t.peak = max(t.peak, 1)
	}
	if f.sample.id == e.id {
		if wrong&free == 0 {
			t.sensitivity.denied(f.sample.most + f.sample.cost - f.limit.Capacity())
		}
		f.sample = sample{}
	}
	if wrong&free != 0 {
		f.under = true
		t.underFree += e.cost
	}
	switch {
	case wrong&charged != 0:
		t.underCharged += e.cost
	case countsDenials && e.id > f.counted:
		f.delay(pair{f.coarsely(e.at), e.cost})
	}
	if wrong&corrected != 0 {
		// Another denial may be the one to correct: one of less cost, or one that was
		// decided later. What is charged here stands for any of them.
		t.leastUnder += f.costs.least
		f.begunWrong += f.costs.most
		f.corrections.push(pair{f.lastEnd, f.costs.most})
		f.explain(e.at, 0, countsDenials)
	}
}

// take removes a denial that has ended from the open ones, and returns under which suppositions
// it has no reason.
func (f *fullest) take(id uint64) supposition {
	for i := range f.denials {
		if f.denials[i].id == id {
			wrong := f.denials[i].unexplained
			f.denials = append(f.denials[:i], f.denials[i+1:]...)
			return wrong
		}
	}
	return 0
}

// own returns a state of a supposition that no longer agrees with the first one.
func (f *fullest) own(state **store.State) *store.State {
	if *state == nil {
		*state = f.free.Clone()
	}
	return *state
}

// delay has denied units charged later on.
func (f *fullest) delay(p pair) {
	if last := f.delayed.last(); last != nil && last.at >= p.at {
		last.units += p.units
		return
	}
	f.delayed.push(p)
}

// mixed takes notice that a key is asked for different costs, so that charging the denied makes
// a difference from now on. Those of before can have been charged already.
func (f *fullest) mixed(lastDenial uint64) {
	f.counted = lastDenial
	if f.costs.most > 0 {
		f.begunDenials += f.limit.Capacity()
		f.delay(pair{f.lastEnd, f.limit.Capacity()})
	}
}

func (f *fullest) clone() fullest {
	c := *f
	c.denials = append([]openDenial(nil), f.denials...)
	c.ending, c.corrections, c.delayed = f.ending.clone(), f.corrections.clone(), f.delayed.clone()
	c.free = *f.free.Clone()
	if f.charged != nil {
		c.charged = f.charged.Clone()
	}
	if f.corrected != nil {
		c.corrected = f.corrected.Clone()
	}
	return c
}
