package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// rounding is by how much a reset may be off, and a retry-after too late: they are in whole seconds.
const rounding = store.Instant(time.Second / time.Microsecond)

// isHeld reports whether what answers report of a limit is compared with it. Of a bucket that is filled up at intervals or
// spaces its requests, and of a counter whose windows begin with a request, it is not: services describe these differently.
func isHeld(limit *store.Limit) bool {
	return limit.Refill == 0 && !limit.Even && !ownPhase(limit)
}

// openReport is what an answer reported and what was true when its request can have been decided first.
type openReport struct {
	reported *Reported
	// used is the least that was in use before it, at whatever instant it was decided, and full the most, with itself if it
	// was admitted, at the first instant. asked is what had been asked for until then.
	used, full, asked int64
	// fits is the earliest instant at which the same request can fit again, and more that at which anything can be back.
	fits, more store.Instant
}

// reports opens the report of a request that begins.
func (m *model) reports(lo, hi store.Instant, e *event) {
	isFree, isCharged, _ := m.most.used(lo)
	for i := range m.most.denials { // one that has no reason so far may have been charged all the same
		isCharged += m.most.denials[i].cost
	}
	r := openReport{reported: e.reported, used: m.least.used(hi), full: max(isFree, isCharged), asked: m.most.asked}
	r.fits, r.more = m.least.fits(e.cost, lo), lo
	if m.most.limit.Algorithm == store.FixedWindow { // aligned: nothing comes back before the window ends
		period := periodOf(m.most.limit)
		r.more = lo - mod(lo, period) + period
		r.fits = r.more
	} else if c, is := m.least.(*chain); is {
		r.more = max(lo, c.ends())
		r.fits = r.more
	}
	m.open = append(m.open, r)
}

// mod is the remainder, which is not negative.
func mod(at, by store.Instant) store.Instant { return (at%by + by) % by }

// hold compares what an answer reported with what can be true, under one phase.
func (m *model) hold(p *phase, e *event) {
	at := 0
	for at < len(m.open) && m.open[at].reported != e.reported {
		at++
	}
	if at == len(m.open) { // it began before the key was known
		return
	}
	r := m.open[at]
	m.open = append(m.open[:at], m.open[at+1:]...)
	lo, hi := p.interval(e.lo, e.hi)
	limit, told := m.most.limit, r.reported
	capacity := limit.Capacity()
	most := r.full + m.most.asked - r.asked // what began meanwhile can have been decided before
	l := liar{p, e}
	least, greatest := max(0, capacity-most), capacity-r.used-e.cost
	if e.answer == Denied {
		least, greatest = 0, min(capacity-r.used, e.cost-1)
	}
	if limit.Algorithm == store.SlidingCounter { // services round the share of the window before in their own ways
		least, greatest = max(0, least-1), greatest+1
	}
	l.hold(audit.Remaining, told.Remaining, least, max(0, greatest))
	within := microseconds(told.ResetWithin) + rounding
	if !limit.Algorithm.HasBurst() && limit.Algorithm != store.FixedWindow && !m.most.afterFirst {
		r.more = lo
	}
	l.time(audit.ResetAfter, told.ResetAfter, r.more-hi-within, hi-lo+m.back(hi, most)+within)
	if e.answer == Denied {
		within := microseconds(told.RetryWithin)
		l.retry(told.RetryAfter, r.fits-hi-within, hi-lo+m.back(hi, most+e.cost-capacity)+rounding+within)
	}
}

// back returns the longest time from an instant until that many units are back, of those that were in use.
func (m *model) back(at store.Instant, units int64) store.Instant {
	limit, period := m.most.limit, periodOf(m.most.limit)
	switch limit.Algorithm {
	case store.FixedWindow:
		return period - mod(at, period)
	case store.SlidingCounter:
		return 2 * period
	case store.SlidingLog:
		return period
	default:
		each := float64(period) / float64(limit.Count)
		return store.Instant(each*float64(max(0, units))) + 1
	}
}

// liar notes what one answer reported wrong under a phase.
type liar struct {
	p *phase
	e *event
}

// hold compares a figure with the least and the most that can be true.
func (l *liar) hold(field audit.Field, reported, least, most int64) {
	if reported == NotReported || least <= reported && reported <= most {
		return
	}
	if l.p.liar != l.e.reported {
		l.p.liar = l.e.reported
		l.p.totals.lied++
	} else if field == audit.Remaining {
		return // it was noted already
	}
	lie := &l.p.totals.lies[field]
	if lie.Answers == 0 {
		*lie = audit.Lie{Key: l.e.key, At: l.e.hi, Reported: reported, True: least, TrueMost: max(least, most)}
	}
	lie.Answers++
}

// time compares a time.
func (l *liar) time(field audit.Field, reported time.Duration, least, most store.Instant) {
	if reported != NotReported {
		l.hold(field, int64(reported), int64(max(0, least))*int64(time.Microsecond), int64(most)*int64(time.Microsecond))
	}
}

// retry compares the wait that a denial named. One that is too long is counted apart.
func (l *liar) retry(reported time.Duration, least, most store.Instant) {
	t := &l.p.totals
	late := microseconds(reported) - most
	switch {
	case reported == NotReported:
	case late <= 0:
		t.onTime++
		fallthrough
	case l.p.liar == l.e.reported:
		l.time(audit.RetryAfter, reported, least, most)
	default:
		if t.late.Answers == 0 {
			t.late = audit.Lie{Key: l.e.key, At: l.e.hi, Reported: int64(reported), True: int64(max(0, least)) * int64(time.Microsecond),
				TrueMost: int64(most) * int64(time.Microsecond)}
		}
		t.late.Answers++
		t.longest = max(t.longest, late)
	}
}

// wait is the denials of a key since a request was admitted.
type wait struct {
	named    store.Instant // by the last of them; 0 if none has named one
	up, down bool
}

// apart takes an answer, and reports whether denials named instants that go up and down by more than their rounding. A wait
// that is always the same, or in another unit, only moves them one way.
func (w *wait) apart(e *event) bool {
	if e.answer != Denied {
		*w = wait{}
		return false
	}
	if e.reported == nil || e.reported.RetryAfter == NotReported {
		return false
	}
	named, coarse := e.hi+microseconds(e.reported.RetryAfter), rounding+microseconds(e.reported.RetryWithin)+e.hi-e.lo
	if w.named != 0 {
		w.up, w.down = w.up || named > w.named+coarse, w.down || named < w.named-coarse
	}
	w.named = named
	return w.up && w.down
}

// level follows the admitted answers that report at least so many units as remaining. What was in use after each was at
// most the rest of the limit, so they keep a limit of that rest, whatever others were admitted. It finds answers that
// were given at the same time and each forget the others; alone, each may be true.
type level struct {
	remaining int64
	limit     *store.Limit
	begun     pairs // as of the account
}

// newLevels returns the levels of a limit: some that leave one unit, two units, four and so on.
func newLevels(limit *store.Limit) (levels []*level) {
	capacity := limit.Capacity()
	for rest := int64(1); rest < capacity && len(levels) < mostLevels; rest *= 2 {
		l := *limit
		room := rest
		if l.Algorithm == store.SlidingCounter {
			room++ // see hold
		}
		if l.Algorithm.HasBurst() {
			l.Burst = room
		} else {
			l.Count = room
		}
		levels = append(levels, &level{remaining: capacity - rest, limit: &l})
	}
	return levels
}

const mostLevels = 10

// newPlacer returns what finds units beyond a limit.
func newPlacer(limit *store.Limit) placer {
	if limit.FromFirst {
		return newChain(limit)
	}
	return &early{limit: limit, kindest: kindest{unusedState(limit)}}
}

// openLevels begins the levels of a key with its first request.
func (k *account) openLevels() {
	k.levels = newLevels(k.limit)
	for _, m := range k.models {
		for _, l := range k.levels {
			m.levels = append(m.levels, newPlacer(l.limit))
		}
	}
}

// beginLevels takes an answer that began into the levels that it belongs to.
func (k *account) beginLevels(e *event) {
	for n, l := range k.levels {
		switch {
		case e.answer == Denied:
		case e.answer == Admitted && e.reported != nil && e.reported.Remaining >= l.remaining:
			l.begun.add(e.lo, e.cost)
		case e.answer != Admitted || e.reported == nil || e.reported.Remaining == NotReported || e.cost > l.limit.Capacity():
			// It may have begun a window.
			for i, m := range k.models {
				_, hi := k.group.phases[i].interval(e.lo, e.hi)
				m.levels[n].uncertain(hi)
			}
		}
	}
}

// endLevels places the units of an answer that has ended.
func (k *account) endLevels(e *event) {
	if e.answer != Admitted || e.reported == nil {
		return
	}
	for n, l := range k.levels {
		if e.reported.Remaining < l.remaining {
			continue
		}
		for units := e.cost; units > 0; {
			first, some := l.begun.take(units)
			units -= some
			for i, m := range k.models {
				p := k.group.phases[i]
				lo, hi := p.interval(first, e.hi)
				if m.levels[n].place(lo, hi, some) > 0 {
					(&liar{p, e}).hold(audit.Remaining, e.reported.Remaining, 0, l.remaining-1)
				}
			}
		}
	}
}
