package audit

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// doubt is what the audit keeps of a key when an answer was wrong, or when a charge is uncertain.
type doubt struct {
	// state is the usage if no uncertain unit was charged.
	state store.State
	// most is the usage if all uncertain units were charged, each as late as possible; nil if it
	// equals state. Units that may still be charged are in late instead.
	most *store.State
	late []late
	// over is the usage without the units that were too many; nil if it equals state. under is
	// the usage with the units that were denied wrongly; nil if it equals most.
	over, under *store.State
}

// late is units that may have been charged, or may still be.
type late struct {
	units int64
	// gaveUp is when their outcome became unknown.
	gaveUp store.Instant
	// until is the instant after which they are not charged any more, 0 if that is not known yet.
	until store.Instant
}

// lateness is how long after a store is known to answer again it may still find a request that
// was given up before, on its way: far longer than networks hold packets back.
const lateness = store.Instant(10 * time.Second / time.Microsecond)

// Unknown says that units of a key may be charged, at some instant not before the observations so
// far. Their outcome became unknown at gaveUp. Until the store has answered about the key after
// that, and for ten seconds more, they may be charged at any time. What is then still in use of
// them fades as the limit says. So there is a range in which an answer is right.
func (a *Auditor) Unknown(key uint32, units int64, gaveUp store.Instant) {
	k := &a.keys[key]
	k.flags |= seen
	m := a.doubtOf(k, &a.limits[k.limit])
	m.late = append(m.late, late{units: units, gaveUp: gaveUp})
}

// doubtOf returns the doubt about a key, and begins it.
func (a *Auditor) doubtOf(k *account, r *rule) *doubt {
	if k.doubt != nil {
		return k.doubt
	}
	k.doubt = new(doubt)
	if !r.keepsState { // else there is nothing yet
		k.doubt.state = k.state(r)
	}
	return k.doubt
}

// observeDoubtful judges a decision about a key that is in doubt.
func (a *Auditor) observeDoubtful(k *account, r *rule, o *Observation) {
	m := a.doubtOf(k, r)
	m.settle(r, o.At)
	least := m.state.Used(o.At)
	most := least
	if m.most != nil {
		most = m.most.Used(o.At)
	}
	possible := int64(0)
	for i := range m.late {
		possible += m.late[i].units
	}
	most += possible
	judges := a.judges(k, o)
	var delay, delayAtMost time.Duration
	if judges && r.tellsDelay && o.Allowed {
		delay = m.state.Delay(&r.limit, o.At)
		delayAtMost = m.atMost(r, possible, o.At).Delay(&r.limit, o.At)
	}
	switch {
	case o.Charged:
		if beyond := min(least+o.Cost-r.reach(o), o.Cost); beyond > 0 {
			a.finding.OverAdmitted += beyond
			k.flags |= overAdmitted
		}
		a.finding.LeastOver += m.chargeAtLeast(r, o, least)
		m.charge(r, o)
		a.charge(k, r, o, least)
		least += o.Cost
	case o.Allowed:
	case most+o.Cost > r.reach(o):
		if least+o.Cost > r.reach(o) {
			a.finding.PeakRatio = max(a.finding.PeakRatio, 1)
		}
	default:
		k.flags |= underAdmitted
		a.finding.UnderAdmitted += o.Cost
		a.finding.LeastUnder += m.deny(r, o, possible)
	}
	if judges {
		truth := figuresOf(&m.state, r, o, least)
		truth.Delay = delay
		truthAtMost := truth
		if m.most != nil || possible > 0 {
			state := m.atMost(r, possible, o.At)
			truthAtMost = figuresOf(state, r, o, state.Used(o.At))
			truthAtMost.Delay = delayAtMost
		}
		a.compare(o, &truth, &truthAtMost)
	}
	m.tidy(o.At)
	if m.most == nil && m.over == nil && m.under == nil && len(m.late) == 0 && !r.keepsState {
		k.units, k.rest = m.state.Units, m.state.Rest
		k.doubt = nil
	}
}

// settle charges to most the uncertain units that cannot be charged any later.
func (m *doubt) settle(r *rule, now store.Instant) {
	left := m.late[:0]
	for _, l := range m.late {
		if l.until == 0 && now >= l.gaveUp {
			l.until = now + lateness
		}
		if l.until == 0 || now <= l.until {
			left = append(left, l)
			continue
		}
		if m.most == nil {
			m.most = m.state.Clone()
		}
		m.most.Charge(r.limit, l.units, l.until)
		if m.under != nil {
			m.under.Charge(r.limit, l.units, l.until)
		}
	}
	m.late = left
}

// atMost returns what is in use at an instant if all that is unknown was charged, units of it just then.
func (m *doubt) atMost(r *rule, units int64, at store.Instant) *store.State {
	s := m.most
	if s == nil {
		s = &m.state
	}
	if units > 0 {
		s = s.Clone()
		s.Charge(r.limit, units, at)
	}
	return s
}

// charge charges what was charged.
func (m *doubt) charge(r *rule, o *Observation) {
	if m.under != nil {
		if room := r.reach(o) - m.under.Used(o.At); room > 0 {
			m.under.Charge(r.limit, min(o.Cost, room), o.At)
		}
	}
	if m.most != nil {
		m.most.Charge(r.limit, o.Cost, o.At)
	}
	m.state.Charge(r.limit, o.Cost, o.At)
}

// chargeAtLeast charges, where what was too much is not charged, and returns how many units of
// this charge are. It comes before charge.
func (m *doubt) chargeAtLeast(r *rule, o *Observation, used int64) (excess int64) {
	if m.over != nil {
		used = m.over.Used(o.At)
	}
	excess = min(max(0, used+o.Cost-r.reach(o)), o.Cost)
	if excess > 0 && m.over == nil {
		m.over = m.state.Clone()
	}
	if m.over != nil && o.Cost > excess {
		m.over.Charge(r.limit, o.Cost-excess, o.At)
	}
	return excess
}

// deny takes a denial that was wrong, and returns how many units of it were not denied wrongly before.
func (m *doubt) deny(r *rule, o *Observation, possible int64) int64 {
	if m.under == nil {
		m.under = m.atMost(r, 0, o.At).Clone()
	}
	if m.under.Used(o.At)+possible+o.Cost > r.reach(o) {
		return 0
	}
	m.under.Charge(r.limit, o.Cost, o.At)
	return o.Cost
}

// tidy forgets what makes no difference any more.
func (m *doubt) tidy(at store.Instant) {
	if m.most == nil && m.over == nil && m.under == nil || m.state.Used(at) > 0 {
		return
	}
	for _, other := range []**store.State{&m.most, &m.over, &m.under} {
		if *other != nil && (*other).Used(at) == 0 {
			*other = nil
		}
	}
}
