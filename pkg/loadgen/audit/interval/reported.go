package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
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
	// Partly: a figure was missing or could not be read, so that the answer counts as held against the truth only if another is
	// wrong.
	Partly bool
}

// NotReported is a figure that an answer did not report.
const NotReported = -1

const (
	// rounding is by how much a reset may be off: it is in whole seconds.
	rounding = store.Instant(time.Second / time.Microsecond)
	// apart is how much longer than needed a wait may be, or a period: some are longer on purpose, so that clients come
	// back apart.
	apart = 10 * rounding
)

// openReport is what was true when the request of an answer can have been decided first.
type openReport struct {
	reported *Reported
	// used is the least that was in use before it, at whatever instant it was decided, and full the most, with itself, at the
	// first instant. asked is what had been asked for until then.
	used, full, asked int64
	// fits is the earliest instant at which the same request can fit again, and more that at which anything can be back.
	fits, more store.Instant
}

// openReport opens the report of a request that begins.
func (k *account) openReport(e *event) {
	k.open = append(k.open, openReport{e.reported, k.least.used(e.hi), k.most.used(e.lo), k.most.asked,
		k.least.fits(e.cost, e.lo), k.least.more(e.lo)})
}

// hold compares what an answer reported with what can be true.
func (k *account) hold(a *Auditor, e *event) {
	at := 0
	for k.open[at].reported != e.reported {
		at++
	}
	r := k.open[at]
	k.open = append(k.open[:at], k.open[at+1:]...)
	limit, told, capacity := k.limit, r.reported, k.limit.Capacity()
	most := r.full + k.most.asked - r.asked // what began meanwhile can have been decided before
	least, greatest := max(0, capacity-most), capacity-r.used-e.cost
	if e.answer == Denied {
		least, greatest = 0, min(capacity-r.used, e.cost-1)
	}
	if limit.Algorithm == store.SlidingCounter { // services round the share of the window before in their own ways
		least, greatest = max(0, least-1), greatest+1
	}
	wrong := false
	check := func(field audit.Field, reported, least, most int64) {
		if reported == NotReported || least <= reported && reported <= most {
			return
		}
		lie := &a.finding.Lies[field]
		if lie.Answers == 0 {
			*lie = audit.Lie{Key: e.key, At: e.hi, Reported: reported, True: max(0, least), TrueMost: max(0, least, most)}
		}
		lie.Answers++
		wrong = true
	}
	wait := func(field audit.Field, reported time.Duration, least, most store.Instant) {
		if reported != NotReported {
			check(field, int64(reported), int64(least)*int64(time.Microsecond), int64(most)*int64(time.Microsecond))
		}
	}
	check(audit.Remaining, told.Remaining, least, max(0, greatest))
	within := microseconds(told.ResetWithin) + rounding
	wait(audit.ResetAfter, told.ResetAfter, r.more-e.hi-within, e.hi-e.lo+k.back(most)+within)
	if e.answer == Denied {
		within = microseconds(told.RetryWithin)
		latest := e.hi - e.lo + k.back(most+e.cost-capacity) + rounding + within + max(apart, periodOf(limit))
		wait(audit.RetryAfter, told.RetryAfter, r.fits-e.hi-within, latest)
	}
	if wrong {
		a.finding.Lied++
	}
	if wrong || !told.Partly {
		a.finding.Reported++
	}
}

// back returns the longest time in which that many units come back, of those that were in use.
func (k *account) back(units int64) store.Instant {
	switch period := longest(k.limit); {
	case k.limit.Algorithm.HasBurst():
		return store.Instant(float64(period)/float64(k.limit.Count)*float64(max(0, units))) + 1
	case k.limit.Algorithm == store.SlidingCounter:
		return 2 * period
	default:
		return period
	}
}
