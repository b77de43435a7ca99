package audit

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// doubt is what the audit keeps of a key when an answer was wrong, or when a charge is uncertain.
type doubt struct {
	// most is the usage if all uncertain units were charged, each as late as possible; nil if it
	// equals the state of the key. Units that may still be charged are in late instead.
	most *store.State
	late []late
	// over is the usage without the units that were too many; nil if it equals the state. under is
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
	if k.state == nil {
		k.state = new(store.State)
	}
	k.beginDoubt().late = append(k.doubt.late, late{units: units, gaveUp: gaveUp})
}

// beginDoubt returns the doubt about a key, and begins it.
func (k *account) beginDoubt() *doubt {
	if k.doubt == nil {
		k.doubt = new(doubt)
	}
	return k.doubt
}

// settle charges to most the uncertain units that cannot be charged any later, and returns those that still can.
func (k *account) settle(r *rule, now store.Instant) (possible int64) {
	m := k.doubt
	if m == nil {
		return 0
	}
	left := m.late[:0]
	for _, l := range m.late {
		if l.until == 0 && now >= l.gaveUp {
			l.until = now + lateness
		}
		if l.until == 0 || now <= l.until {
			left, possible = append(left, l), possible+l.units
			continue
		}
		if m.most == nil {
			m.most = k.state.Clone()
		}
		m.most.Charge(r.limit, l.units, l.until)
		if m.under != nil {
			m.under.Charge(r.limit, l.units, l.until)
		}
	}
	m.late = left
	return possible
}

// atMost returns what is in use at an instant if all that is unknown was charged, units of it just then.
func (k *account) atMost(r *rule, units int64, at store.Instant) *store.State {
	s := k.state
	if k.doubt != nil && k.doubt.most != nil {
		s = k.doubt.most
	}
	if units > 0 {
		s = s.Clone()
		s.Charge(r.limit, units, at)
	}
	return s
}

// charge charges what was charged, used units being in use before. It returns how many of them were too many, if what
// was too much before was not charged.
func (k *account) charge(r *rule, o *Observation, used int64) (excess int64) {
	m := k.doubt
	if m != nil {
		if m.under != nil {
			if room := r.reach(o) - m.under.Used(o.At); room > 0 {
				m.under.Charge(r.limit, min(o.Cost, room), o.At)
			}
		}
		if m.most != nil {
			m.most.Charge(r.limit, o.Cost, o.At)
		}
		if m.over != nil {
			used = m.over.Used(o.At)
		}
	}
	excess = min(max(0, used+o.Cost-r.reach(o)), o.Cost)
	if excess > 0 {
		if m = k.beginDoubt(); m.over == nil {
			m.over = k.state.Clone()
		}
	}
	if m != nil && m.over != nil && o.Cost > excess {
		m.over.Charge(r.limit, o.Cost-excess, o.At)
	}
	k.state.Charge(r.limit, o.Cost, o.At)
	return excess
}

// deny takes a denial that was wrong, and returns how many units of it were not denied wrongly before.
func (k *account) deny(r *rule, o *Observation, possible int64) int64 {
	m := k.beginDoubt()
	if m.under == nil {
		m.under = k.atMost(r, 0, o.At).Clone()
	}
	if m.under.Used(o.At)+possible+o.Cost > r.reach(o) {
		return 0
	}
	m.under.Charge(r.limit, o.Cost, o.At)
	return o.Cost
}

// tidy forgets what makes no difference any more.
func (k *account) tidy(at store.Instant) {
	m := k.doubt
	if m == nil {
		return
	}
	if k.state.Used(at) == 0 {
		for _, other := range []**store.State{&m.most, &m.over, &m.under} {
			if *other != nil && (*other).Used(at) == 0 {
				*other = nil
			}
		}
	}
	if m.most == nil && m.over == nil && m.under == nil && len(m.late) == 0 {
		k.doubt = nil
	}
}
