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
	// RetryAfter is the time from the answer until the same request would be admitted, and ResetAfter that until there
	// is more, or until all is unused: services differ.
	RetryAfter, ResetAfter time.Duration
	// RetryWithin and ResetWithin are by how much these times may be off because they came as instants of another
	// clock.
	RetryWithin, ResetWithin time.Duration
	// Partly: a figure was missing or could not be read, so that the answer counts as held against the truth only if
	// another is wrong.
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

// truth is what was true when a request can have been decided first.
type truth struct {
	// used is the least that was in use before it, at whatever instant it was decided, and full the most, with itself,
	// at the first instant. asked is what had been asked for until then.
	used, full, asked int64
	// fits is the earliest instant at which the same request can fit again, and more that at which anything can be
	// back.
	fits, more store.Instant
}

// open notes the truth of a request that begins.
func (k *account) open(r *request) {
	r.truth = truth{k.least.used(r.hi), k.most.used(r.lo), k.most.asked, k.least.fits(r.cost, r.lo), k.least.more(r.lo)}
}

// hold compares what an answer reported with what can be true.
func (k *account) hold(a *Auditor, r *request) {
	limit, told, known, capacity := k.limit, r.reported, &r.truth, k.limit.Capacity()
	most := known.full + k.most.asked - known.asked // what began meanwhile can have been decided before
	least, greatest := max(0, capacity-most), capacity-known.used-r.cost
	if r.answer == Denied {
		least, greatest = 0, min(capacity-known.used, r.cost-1)
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
			*lie = audit.Lie{Key: r.key, At: r.hi, Reported: reported, True: max(0, least),
				TrueMost: max(0, least, most)}
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
	wait(audit.ResetAfter, told.ResetAfter, known.more-r.hi-within, r.hi-r.lo+k.back(most)+within)
	if r.answer == Denied {
		within = microseconds(told.RetryWithin)
		latest := r.hi - r.lo + k.back(most+r.cost-capacity) + rounding + within + max(apart, periodOf(limit))
		wait(audit.RetryAfter, told.RetryAfter, known.fits-r.hi-within, latest)
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
