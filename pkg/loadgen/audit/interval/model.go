package interval

import "github.com/limitctl/limitctl/pkg/limiter"

// model is what a key holds at least and at most, under one phase.
type model struct {
	least placer
	most  fullest
}

// placer finds what was admitted and should not have been.
type placer interface {
	// place takes units that were admitted from lo to hi. Neither is before that of units that
	// were placed before. It returns how many more are too many for sure.
	place(lo, hi limiter.Instant, units int64) (tooMany int64)
	// spare returns how many more units would have been placed at hi, the last one.
	spare(hi limiter.Instant) int64
	// uncertain says that a request has begun whose fate is not known, and which can be decided
	// until an instant.
	uncertain(until limiter.Instant)
	clone() placer
}

func newModel(limit *limiter.Limit) *model {
	m := &model{most: fullest{limit: limit}}
	if !limit.FromFirst {
		m.least = &early{limit: limit}
		return m
	}
	m.least = newChain(limit)
	// What is in use is of the last period at most, and nothing is if none was admitted in it.
	m.most.limit = &limiter.Limit{Algorithm: limiter.SlidingLog, Count: limit.Count, Period: limit.Period, Burst: limit.Count}
	m.most.afterFirst = true
	return m
}

func (m *model) begin(p *phase, e *event, countsDenials bool) {
	lo, hi := p.interval(e.lo, e.hi)
	m.most.settle(lo, countsDenials, &p.totals)
	m.most.begin(lo, hi, e, countsDenials)
	if e.answer == Unknown {
		m.least.uncertain(hi)
	}
}

func (m *model) pair(p *phase, lo, hi limiter.Instant, units int64) {
	lo, hi = p.interval(lo, hi)
	tooMany := m.least.place(lo, hi, units)
	spare, capacity := m.least.spare(hi), m.most.limit.Capacity()
	p.totals.over += tooMany
	p.totals.peak = max(p.totals.peak, float64(capacity-spare+tooMany)/float64(capacity))
	p.totals.sight.admitted(spare)
}

func (m *model) end(p *phase, e *event) {
	_, hi := p.interval(e.lo, e.hi)
	m.most.end(hi, e)
}

func (m *model) clone() *model { return &model{m.least.clone(), m.most.clone()} }
