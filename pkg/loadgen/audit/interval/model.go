package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// model is what a key holds at least and at most, under one phase.
type model struct {
	least placer
	most  fullest
	over  bool // any units were too many
}

// placer finds what was admitted and should not have been.
type placer interface {
	// place takes units that were admitted from lo to hi. Neither is before that of units that
	// were placed before. It returns how many more are too many for sure.
	place(lo, hi store.Instant, units int64) (tooMany int64)
	// spare returns how many more units would have been placed at hi, the last one.
	spare(hi store.Instant) int64
	// uncertain says that a request has begun whose fate is not known, and which can be decided
	// until an instant.
	uncertain(until store.Instant)
	clone() placer
}

func newModel(limit *store.Limit) *model {
	m := &model{most: fullest{limit: slowest(limit)}}
	if !limit.FromFirst {
		m.least = &early{limit: fastest(limit)}
		return m
	}
	m.least = newChain(fastest(limit))
	// What is in use is of the last period at most, and nothing is if none was admitted in it.
	m.most.limit.Algorithm, m.most.limit.FromFirst = store.SlidingLog, false
	m.most.afterFirst = true
	return m
}

// usedBefore says that all of the limit may have been in use at an instant, before which no request
// of the key was sent.
func (m *model) usedBefore(p *phase, at store.Instant) {
	_, hi := p.interval(at, at)
	m.most.usedBefore(hi)
	m.least.uncertain(hi)
}

func (m *model) begin(p *phase, e *event, countsDenials bool) {
	lo, hi := p.interval(e.lo, e.hi)
	m.most.settle(lo, countsDenials, &p.totals)
	m.most.begin(lo, hi, e, countsDenials)
	if e.answer == Unknown || e.answer == Uncertain {
		m.least.uncertain(hi)
	}
}

func (m *model) pair(p *phase, lo, hi store.Instant, units int64) {
	lo, hi = p.interval(lo, hi)
	tooMany := m.least.place(lo, hi, units)
	spare, capacity := m.least.spare(hi), m.most.limit.Capacity()
	p.totals.over += tooMany
	m.over = m.over || tooMany > 0
	p.totals.peak = max(p.totals.peak, float64(capacity-spare+tooMany)/float64(capacity))
	p.totals.sensitivity.admitted(spare)
}

func (m *model) end(p *phase, e *event) {
	_, hi := p.interval(e.lo, e.hi)
	m.most.end(hi, e)
}

func (m *model) clone() *model { return &model{m.least.clone(), m.most.clone(), m.over} }
