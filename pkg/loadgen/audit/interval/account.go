package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// account is what is known of one key.
type account struct {
	limit *store.Limit
	least certain
	most  possible
	// begun is the first instants of the units that were admitted, in order. The n-th unit that was charged cannot
	// have been so before the n-th of these instants, nor after the n-th of the last instants. That is all that
	// pairs them. asked is the same with what was denied.
	begun, asked pairs

	charged, denials int64 // denials since the last request that was admitted
	lastDenial       uint64
	denied, over     bool // ever
	under            bool
	peak             float64
	// until is the last instant at which something can have been charged so far.
	until store.Instant
	open  []openReport

	// countsDenials: limits of this algorithm may charge what they deny. rate is what was asked for then.
	countsDenials bool
	rate          recent
	share         int64 // by which a unit of rate counts at least
}

// drift is by which part of it two clocks may differ about how long something takes: 500 millionths,
// the most by which the kernel adjusts a clock.
const drift = 2000

// periodOf returns a limit's period in instants.
func periodOf(limit *store.Limit) store.Instant {
	return store.Instant(limit.Period / time.Microsecond)
}

// shortest and longest are the period as it may look from here, if the other side's clock runs fast or slow.
func shortest(limit *store.Limit) store.Instant { return periodOf(limit) - periodOf(limit)/drift }

func longest(limit *store.Limit) store.Instant { return periodOf(limit) + periodOf(limit)/drift }

func newAccount(limit *store.Limit) *account {
	k := &account{limit: limit, least: newCertain(limit), most: newPossible(limit), until: -maxInstant}
	switch limit.Algorithm {
	case store.SlidingLog:
		k.countsDenials, k.rate, k.share = true, newRecent(shortest(limit)), 1
	case store.SlidingCounter: // a unit counts for half of itself or more in the first half of a period, wherever windows begin
		k.countsDenials, k.rate, k.share = true, newRecent(shortest(limit)/2), 2
	default: // A full bucket does not charge what it denies, and in windows it makes no difference.
	}
	return k
}

// usedBefore says that all of the limit may have been in use until an instant, before which no request was sent.
func (k *account) usedBefore(at store.Instant) {
	k.most.usedBefore(at)
	k.until = at
}

// begin takes a request from the first instant at which it can have been decided.
func (k *account) begin(a *Auditor, e *event) {
	if k.limit.FromFirst && e.lo-longest(k.limit) > k.until { // nothing is in use, so e or a later one begins a window
		k.least.turns(e.lo, 0)
	}
	if e.answer != Denied {
		k.until = max(k.until, e.hi)
	}
	if k.countsDenials && (e.answer == Admitted || e.answer == Denied) {
		k.asked.add(e.lo, e.cost)
		if e.answer == Admitted && k.rate.since(e.lo, e.hi)/k.share+e.cost > k.limit.Count {
			a.deniedFree = true
		}
	}
	if e.answer == Admitted {
		k.charged, k.denials, k.least.begun = k.charged+e.cost, 0, k.least.begun+e.cost
		k.begun.add(e.lo, e.cost)
	} else if e.answer == Denied {
		k.lastDenial, k.denials, k.denied = k.lastDenial+1, k.denials+1, true
		e.id = k.lastDenial
		a.finding.Denied++
		a.finding.LongestDenialRun = max(a.finding.LongestDenialRun, k.denials)
	}
	k.most.begin(e)
	if e.reported != nil {
		k.openReport(e)
	}
}

// end takes a request from the last instant at which it can have been decided.
func (k *account) end(a *Auditor, e *event) {
	if k.countsDenials && (e.answer == Admitted || e.answer == Denied) {
		for units := e.cost; units > 0; {
			lo, n := k.asked.take(units)
			units -= n
			k.rate.add(lo-lo%k.rate.step, n)
		}
	}
	for units := e.cost; e.answer == Admitted && units > 0; {
		lo, n := k.begun.take(units)
		units -= n
		over := k.least.place(lo, e.hi, n)
		a.finding.OverAdmitted += over
		k.over = k.over || over > 0
		k.peak = max(k.peak, float64(k.least.used(e.hi)+over)/float64(k.limit.Capacity()))
	}
	if e.answer == Denied {
		k.judge(a, e)
		if k.limit.Algorithm == store.FixedWindow {
			k.least.turns(e.lo, e.cost-1)
		}
	}
	k.most.end(e)
	if e.reported != nil {
		k.hold(a, e)
	}
}

// judge finds a denial without a reason that has ended.
func (k *account) judge(a *Auditor, e *event) {
	free, charged := k.most.withoutReason(e.id)
	free = free && !(k.over && k.limit.Algorithm == store.FixedWindow) // where too much was let in, no window is known
	k.under = k.under || free
	switch {
	case !free:
		k.peak = max(k.peak, 1) // the limit was reached
	case k.countsDenials:
		a.underFree += e.cost
	default:
		a.finding.UnderAdmitted += e.cost
	}
	if charged {
		a.underCharged += e.cost
	}
}
