package interval

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// model is what a key holds at least and at most, under one phase.
type model struct {
	least placer
	most  fullest
	over  bool // any units were too many
	open  []openReport
	// levels find what was reported as remaining too often; see level.
	levels []placer
}

// newModel returns the model of a key of which nothing is known yet. roundsDown: a counter rounds down what is left of
// the window before. No rounding is fuller than up, which is the rule of the fullest model.
func newModel(limit *store.Limit, roundsDown bool) *model {
	m := &model{most: fullest{limit: slowest(limit), free: unusedState(limit)}}
	if !limit.FromFirst {
		least := &early{limit: fastest(limit), kindest: kindest{unusedState(limit)}}
		if roundsDown {
			down := *least.limit
			down.FromFirst = true
			least.limit = &down
		}
		m.least = least
		return m
	}
	m.least = newPlacer(fastest(limit))
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
	if e.reported != nil {
		m.reports(lo, hi, e)
	}
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
	if e.reported != nil {
		m.hold(p, e)
	}
	m.most.end(hi, e)
}

func (m *model) clone() *model {
	c := &model{least: m.least.clone(), most: m.most.clone(), over: m.over, open: slices.Clone(m.open)}
	for _, l := range m.levels {
		c.levels = append(c.levels, l.clone())
	}
	return c
}
