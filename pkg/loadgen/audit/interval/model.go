package interval

import "github.com/limitctl/limitctl/pkg/limiter"

// model is what a key holds at least and at most, under one phase.
type model struct {
	limit  *limiter.Limit
	least  kindest
	most   limiter.State
	begun  int64 // units that can have been charged, and need not have been yet
	ending []ending
	open   []openDenial
}

// ending is a request at the last instant at which it can have been decided.
type ending struct {
	at     limiter.Instant
	cost   int64
	id     uint64
	answer Answer
}

// openDenial is a denial for which no reason is known so far.
type openDenial struct {
	id   uint64
	cost int64
}

func (m *model) begin(p *phase, e *event) {
	at := e.lo - p.to
	m.settle(p, at)
	if e.answer == Denied {
		if !m.explains(at, e.cost) {
			m.open = append(m.open, openDenial{e.id, e.cost})
		}
		return
	}
	m.begun += e.cost
	if len(m.open) == 0 {
		return
	}
	used, rest := m.most.Used(at)+m.begun, m.open[:0]
	for _, d := range m.open {
		if used+d.cost <= m.limit.Capacity() {
			rest = append(rest, d)
		}
	}
	m.open = rest
}

// explains reports whether a request can have been denied at an instant.
func (m *model) explains(at limiter.Instant, cost int64) bool {
	return m.most.Used(at)+m.begun+cost > m.limit.Capacity()
}

// pair takes units that were admitted from lo to hi.
func (m *model) pair(p *phase, lo, hi limiter.Instant, units int64) {
	p.totals.over += m.least.place(m.limit, lo-p.to, hi-p.from, units)
}

func (m *model) end(p *phase, e *event) {
	m.ending = append(m.ending, ending{e.hi - p.from, e.cost, e.id, e.answer})
}

// settle judges and charges what was decided before an instant for sure.
func (m *model) settle(p *phase, before limiter.Instant) {
	n := 0
	for ; n < len(m.ending) && m.ending[n].at < before; n++ {
		e := &m.ending[n]
		if e.answer != Denied {
			m.begun -= e.cost
			m.most.Charge(*m.limit, e.cost, e.at)
			continue
		}
		for i := range m.open {
			if m.open[i].id == e.id {
				p.totals.underFree += e.cost
				m.open = append(m.open[:i], m.open[i+1:]...)
				break
			}
		}
	}
	m.ending = m.ending[:copy(m.ending, m.ending[n:])]
}
