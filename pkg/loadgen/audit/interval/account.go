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

	charged      int64
	denied, over bool // ever
	under        bool
	peak         float64
	// until is the last instant at which something can have been charged so far.
	until store.Instant

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
	// a unit counts for half of itself or more in the first half of a period, wherever windows begin
	case store.SlidingCounter:
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
func (k *account) begin(a *Auditor, r *request) {
	if k.limit.FromFirst && r.lo-longest(k.limit) > k.until { // nothing is in use, so r or a later one begins a window
		k.least.turns(r.lo, 0)
	}
	if r.answer != Denied {
		k.until = max(k.until, r.hi)
	}
	if k.countsDenials && (r.answer == Admitted || r.answer == Denied) {
		k.asked.add(r.lo, r.cost)
		k.rate.at(r.lo)
		if r.answer == Admitted && k.rate.left(r.hi)/k.share+r.cost > k.limit.Count {
			a.deniedFree = true
		}
	}
	if r.answer == Admitted {
		k.charged, k.least.begun = k.charged+r.cost, k.least.begun+r.cost
		k.begun.add(r.lo, r.cost)
	} else if r.answer == Denied {
		k.denied = true
		a.finding.Denied++
	}
	k.most.begin(r)
	if r.reported != nil {
		k.open(r)
	}
}

// end takes a request from the last instant at which it can have been decided.
func (k *account) end(a *Auditor, r *request) {
	if k.countsDenials && (r.answer == Admitted || r.answer == Denied) {
		for units := r.cost; units > 0; {
			lo, n := k.asked.take(units)
			units -= n
			k.rate.add(lo-lo%k.rate.step, n)
		}
	}
	for units := r.cost; r.answer == Admitted && units > 0; {
		lo, n := k.begun.take(units)
		units -= n
		over := k.least.place(lo, r.hi, n)
		a.finding.OverAdmitted += over
		k.over = k.over || over > 0
		k.peak = max(k.peak, float64(k.least.used(r.hi)+over)/float64(k.limit.Capacity()))
	}
	if r.answer == Denied {
		k.judge(a, r)
		if k.limit.Algorithm == store.FixedWindow {
			k.least.turns(r.lo, r.cost-1)
		}
	}
	k.most.end(r)
	if r.reported != nil {
		k.hold(a, r)
	}
}

// judge finds a denial without a reason that has ended.
func (k *account) judge(a *Auditor, r *request) {
	free, charged := k.most.withoutReason(r)
	free = free && !(k.over && k.limit.Algorithm == store.FixedWindow) // where too much was let in, no window is known
	k.under = k.under || free
	switch {
	case !free:
		k.peak = max(k.peak, 1) // the limit was reached
	case k.countsDenials:
		a.underFree += r.cost
	default:
		a.finding.UnderAdmitted += r.cost
	}
	if charged {
		a.underCharged += r.cost
	}
}

// Back is when a unit of a key that was denied is admitted again: certainly not before Early, and certainly from Late
// on, unless denied requests are charged. From Unused on all of the limit fits.
type Back struct{ Early, Late, Unused store.Instant }

// Back returns that of the last request of a key, which was denied between two instants. All must be settled.
func (a *Auditor) Back(key uint32, sent, answered store.Instant) Back {
	k := a.keys[key]
	b := Back{k.least.fits(1, sent), k.most.free.fits(1, answered), k.most.free.fits(k.limit.Capacity(), answered)}
	if k.limit.Algorithm == store.FixedWindow { // all comes back at once
		b.Unused = b.Late
	}
	return b
}
