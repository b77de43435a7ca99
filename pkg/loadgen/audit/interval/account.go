package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// account is what is known of one key.
type account struct {
	limit  *store.Limit // with the period as short as it may look
	group  *group
	models []*model // one for each phase of the group
	// begun is the first instants of the units that were admitted, in order. The n-th unit
	// that was charged cannot have been so before the n-th of these instants, nor after the
	// n-th of the last instants. That is all that pairs them.
	begun pairs
	span  span

	charged, denials int64 // denials since the last request that was admitted
	denied           bool  // ever
	lastDenial       uint64
	cost             int64 // of its requests, or 0 before the first
	// countsDenials says that charging denied requests would make a difference.
	countsDenials bool
	rated         bool     // few keys are followed in more ways
	rates         *rates   // of those
	levels        []*level // of those, if the first answer reports something

	// until is the last instant at which a request that has begun can have been decided. charge is the first one at which
	// the newest that was admitted can, and asked that of the newest that was admitted or denied: others need not have
	// been charged, or the first.
	until, asked, charge store.Instant
	wasOver, wasUnder    bool // before the windows began anew
	wait                 wait
}

// begin takes a request from the first instant at which it can have been decided.
func (k *account) begin(a *Auditor, e *event) {
	f := &a.finding
	if k.cost == 0 && e.reported != nil && k.rated && !(a.usedBefore && k.limit.FromFirst) {
		k.openLevels()
	}
	k.price(e.cost)
	isFirst := k.until == 0
	if isFirst || e.answer == Admitted {
		k.charge = e.lo
	}
	if isFirst || e.answer == Admitted || e.answer == Denied {
		k.asked = e.lo
	}
	k.until = max(k.until, e.hi)
	switch e.answer {
	case Admitted:
		k.charged += e.cost
		k.denials = 0
		k.begun.add(e.lo, e.cost)
	case Denied:
		k.lastDenial++
		e.id = k.lastDenial
		k.denied = true
		k.denials++
		f.Denied++
		f.LongestDenialRun = max(f.LongestDenialRun, k.denials)
	case Unknown, Uncertain: // by others, or by nobody
	}
	if k.rates.begin(k.limit, e) {
		k.group.deniedFree = true
	}
	k.beginLevels(e)
	for i, m := range k.models {
		m.begin(k.group.phases[i], e, k.countsDenials)
	}
}

// end takes a request from the last instant at which it can have been decided.
func (k *account) end(a *Auditor, e *event) {
	k.rates.end(e)
	if e.reported != nil {
		a.finding.Reported++
	}
	k.group.apart = k.wait.apart(e) || k.group.apart
	if e.answer == Admitted {
		for units := e.cost; units > 0; {
			lo, n := k.begun.take(units)
			units -= n
			for i, m := range k.models {
				m.pair(k.group.phases[i], lo, e.hi, n)
			}
			k.span.add(k.limit, lo, e.hi, n)
		}
	}
	k.endLevels(e)
	for i, m := range k.models {
		m.end(k.group.phases[i], e)
	}
}

// price notes the cost of a request. If all have the same, a window that has no room for one has
// none for another, so that it makes no difference whether the denied are charged.
func (k *account) price(cost int64) {
	if k.cost == 0 {
		k.cost = cost
	}
	if cost == k.cost || k.countsDenials || k.limit.Algorithm != store.FixedWindow {
		return
	}
	k.countsDenials = true
	for _, m := range k.models {
		m.most.mixed(k.lastDenial)
	}
}

// settle judges what was decided before an instant for sure.
func (k *account) settle(before store.Instant) {
	for i, m := range k.models {
		p := k.group.phases[i]
		lo, _ := p.interval(before, before)
		m.most.settle(lo, k.countsDenials, &p.totals)
	}
}
