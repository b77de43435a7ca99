package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// account is what is known of one key.
type account struct {
	limit  *limiter.Limit
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
}

// begin takes a request from the first instant at which it can have been decided.
func (k *account) begin(a *Auditor, e *event) {
	f := &a.finding
	switch e.answer {
	case Admitted:
		k.charged += e.cost
		k.denials = 0
		k.begun.push(e.lo, e.cost)
	case Denied:
		k.lastDenial++
		e.id = k.lastDenial
		k.denied = true
		k.denials++
		f.Denied++
		f.LongestDenialRun = max(f.LongestDenialRun, k.denials)
		k.group.denied(e)
	}
	for i, m := range k.models {
		m.begin(k.group.phases[i], e)
	}
}

// end takes a request from the last instant at which it can have been decided.
func (k *account) end(e *event) {
	if e.answer == Admitted {
		for units := e.cost; units > 0; {
			lo, n := k.begun.pop(units)
			units -= n
			for i, m := range k.models {
				m.pair(k.group.phases[i], lo, e.hi, n)
			}
			k.span.add(k.limit, lo, e.hi, n)
		}
	}
	for i, m := range k.models {
		m.end(k.group.phases[i], e)
	}
}

// Finding returns what was found so far. What is not judged yet is left out.
func (a *Auditor) Finding() audit.Finding {
	f := a.finding
	for _, k := range a.keys {
		if k == nil {
			continue
		}
		f.Keys++
		if k.denied {
			f.KeysDenied++
		}
		x := float64(k.charged)
		f.Charged += x
		f.ChargedSquares += x * x
		f.WorstUnits = max(f.WorstUnits, k.span.worst)
		f.WorstRatio = max(f.WorstRatio, k.span.ratio(k.limit))
	}
	for _, g := range a.groups {
		t := &g.best().totals
		f.OverAdmitted += t.over
		f.UnderAdmitted += t.under(g)
	}
	f.Fairness = audit.Fairness(f.Keys, f.Charged, f.ChargedSquares)
	return f
}

// pairs is instants and units, in the order of instants.
type pairs struct {
	list []pair
	head int
}

type pair struct {
	at    limiter.Instant
	units int64
}

func (p *pairs) empty() bool { return p.head == len(p.list) }

func (p *pairs) front() *pair { return &p.list[p.head] }

func (p *pairs) push(at limiter.Instant, units int64) {
	if n := len(p.list); n > p.head && p.list[n-1].at == at {
		p.list[n-1].units += units
		return
	}
	if p.head > len(p.list)/2 {
		n := copy(p.list, p.list[p.head:])
		p.list, p.head = p.list[:n], 0
	}
	p.list = append(p.list, pair{at, units})
}

// pop takes up to most units of the first instant.
func (p *pairs) pop(most int64) (at limiter.Instant, units int64) {
	first := p.front()
	at, units = first.at, min(most, first.units)
	if first.units -= units; first.units == 0 {
		p.head++
	}
	return at, units
}
