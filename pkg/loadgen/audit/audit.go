// Package audit judges, from what a load was admitted, denied and reported, whether a rate limit did what it
// promises. It knows only the answers and the instants they were given at, not how they came about.
package audit

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Observation is one limit's answer to one request.
type Observation struct {
	// Key is the index of the key that was decided about; see [Auditor.SetLimit].
	Key uint32
	// At is the decision's own instant, by the store's clock.
	At store.Instant
	// Cost is the units asked for, 1 or more.
	Cost int64
	// Leave is the units that must stay free after it; see [store.Request].Leave.
	Leave int64
	// Allowed is this limit's answer. Charged says that the units were taken: the
	// limits decided together allowed it, too.
	Allowed, Charged bool
	// Reported is what else the answer said; nil if it cannot be held against the limit, because
	// something else than the store answered.
	Reported *Figures
}

// Figures are what an answer tells beside whether it allowed, as in [store.Decision].
type Figures struct {
	Used, Remaining               int64
	RetryAfter, ResetAfter, Delay time.Duration
}

// Auditor audits one limit over any number of keys. Observations of one key have to
// come in the order of their instants. Of one instant, those that reported fewer units used come
// first, and of those that reported the same the charged ones. An Auditor is for one goroutine.
type Auditor struct {
	keys    []account
	limits  []rule // that keys are under
	known   map[store.Limit]uint32
	finding Finding // except for what is computed over all keys
}

// rule is a limit, and what is often asked of it.
type rule struct {
	limit    store.Limit
	capacity int64
	period   store.Instant
	hasBurst bool
	isLog    bool // what is in use is exactly the admissions of the last period
}

// New returns an Auditor that has seen nothing.
func New() *Auditor { return &Auditor{known: map[store.Limit]uint32{}} }

// account is what is known of one key. There can be millions, so it is small.
type account struct {
	admissions admissions // of the last period; empty for a sliding log
	// state is what is in use after everything charged was charged to it; nil if nothing was observed.
	state   *store.State
	doubt   *doubt // nil for nearly all keys
	charged int64
	last    store.Instant // of the last observation
	limit   uint32        // an index into the Auditor's limits
	flags   uint8
}

// The flags of an account.
const (
	seen   uint8 = 1 << iota
	denied       // ever
	// doubted: in which order its decisions were made is not known, or under which limit.
	// What answers tell about it is not judged.
	doubted
	overAdmitted  // ever
	underAdmitted // ever
)

// SetLimit says which limit a key is under. It must be called before the first
// observation of the key. limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit store.Limit) {
	number, known := a.known[limit]
	if !known {
		number = uint32(len(a.limits))
		a.known[limit] = number
		a.limits = append(a.limits, rule{
			limit: limit, capacity: limit.Capacity(), period: store.Instant(limit.Period.Microseconds()),
			hasBurst: limit.Algorithm.HasBurst(), isLog: limit.Algorithm == store.SlidingLog,
		})
	}
	if missing := int(key) + 1 - len(a.keys); missing > 0 {
		a.keys = append(a.keys, make([]account, missing)...)
	}
	a.keys[key].limit = number
}

// Doubt says that not all decisions about a key were made under the limit that was set. What
// answers tell about it is not judged any more.
func (a *Auditor) Doubt(key uint32) { a.keys[key].flags |= doubted }

// Observe adds a decision to the audit. It does not keep o.Reported.
func (a *Auditor) Observe(o Observation) {
	k := &a.keys[o.Key]
	r := &a.limits[k.limit]
	a.ask(k, o.Allowed)
	if k.state == nil {
		k.state = new(store.State)
	}
	if o.At < k.last {
		a.finding.OutOfOrder++
		o.At = k.last
		k.flags |= doubted
	}
	k.last = o.At
	if o.Charged && k.flags&doubted != 0 {
		o.Leave = 0 // units that were charged later may come before it
	}
	possible := k.settle(r, o.At)
	used := k.state.Used(o.At)
	judges := o.Reported != nil && k.flags&doubted == 0
	var delay, delayAtMost time.Duration
	if judges && o.Allowed && r.limit.Algorithm == store.LeakyBucket {
		delay, delayAtMost = k.state.Delay(&r.limit, o.At), k.atMost(r, possible, o.At).Delay(&r.limit, o.At)
	}
	switch {
	case o.Charged:
		if excess := k.charge(r, &o, used); excess > 0 {
			a.finding.OverAdmitted += excess
			k.flags |= overAdmitted
		}
		a.charge(k, r, &o, used)
		used += o.Cost
	case o.Allowed:
	case used+o.Cost > r.reach(&o):
		a.finding.PeakRatio = max(a.finding.PeakRatio, 1)
	case k.doubt == nil || k.atMost(r, 0, o.At).Used(o.At)+possible+o.Cost <= r.reach(&o):
		k.flags |= underAdmitted
		a.finding.UnderAdmitted += k.deny(r, &o, possible)
	}
	if judges {
		least := figuresOf(k.state, r, &o, used)
		least.Delay = delay
		most := least
		if k.doubt != nil {
			state := k.atMost(r, possible, o.At)
			most = figuresOf(state, r, &o, state.Used(o.At))
			most.Delay = delayAtMost
		}
		a.compare(&o, &least, &most)
	}
	k.tidy(o.At)
}

// Count adds a decision that the rule of the limit itself made when used units were in use, so that it needs no
// judgement. Those of one key come in the order of their instants, and none of them is observed.
func (a *Auditor) Count(o Observation, used int64) {
	k := &a.keys[o.Key]
	a.ask(k, o.Allowed)
	if !o.Allowed {
		a.finding.PeakRatio = max(a.finding.PeakRatio, 1)
	}
	if o.Charged {
		a.charge(k, &a.limits[k.limit], &o, used)
	}
}

// ask counts a request and its answer.
func (a *Auditor) ask(k *account, allowed bool) {
	k.flags |= seen
	if !allowed {
		k.flags |= denied
		a.finding.Denied++
	}
}

// reach is the most units that may be in use after o is allowed.
func (r *rule) reach(o *Observation) int64 { return r.capacity - o.Leave }

// charge notes an admission, used units being in use before.
func (a *Auditor) charge(k *account, r *rule, o *Observation, used int64) {
	k.charged += o.Cost
	units := used + o.Cost
	if !r.isLog {
		k.admissions.forget(o.At - r.period)
		k.admissions.add(o.At, o.Cost)
		units = k.admissions.units
	}
	a.finding.WorstUnits = max(a.finding.WorstUnits, units)
	reached, worst := float64(used+o.Cost)/float64(r.capacity), float64(units)/float64(r.capacity)
	if r.hasBurst {
		worst = reached
	}
	a.finding.PeakRatio, a.finding.WorstRatio = max(a.finding.PeakRatio, reached), max(a.finding.WorstRatio, worst)
}

// Finding returns what was found so far.
func (a *Auditor) Finding() Finding {
	f := a.finding
	for i := range a.keys {
		k := &a.keys[i]
		if k.flags&seen == 0 {
			continue
		}
		f.Keys++
		if k.flags&denied != 0 {
			f.KeysDenied++
		}
		if k.flags&overAdmitted != 0 {
			f.KeysOver++
		}
		if k.flags&underAdmitted != 0 {
			f.KeysUnder++
		}
		x := float64(k.charged)
		f.Charged += x
		f.ChargedSquares += x * x
	}
	f.Fairness = Fairness(f.Keys, f.Charged, f.ChargedSquares)
	return f
}

// Fairness is Jain's index of the units that each of n keys was charged, from their sum and the sum of their squares.
func Fairness(n int64, sum, squares float64) float64 {
	if n == 0 || squares == 0 {
		return 1
	}
	return sum * sum / (float64(n) * squares)
}

// admissions are those of one key in the last period, in the order of their instants.
type admissions struct {
	units int64       // of all
	list  []admission // from first on
	first uint32
}

type admission struct {
	at    store.Instant
	units uint32
}

// add adds an admission that is not before the newest.
func (l *admissions) add(at store.Instant, units int64) {
	l.units += units
	if last := len(l.list) - 1; last >= int(l.first) && l.list[last].at == at {
		l.list[last].units += uint32(units)
		return
	}
	l.list = append(l.list, admission{at, uint32(units)})
}

// forget drops the admissions through an instant.
func (l *admissions) forget(through store.Instant) {
	for int(l.first) < len(l.list) && l.list[l.first].at <= through {
		l.units -= int64(l.list[l.first].units)
		l.first++
	}
	if half := len(l.list) / 2; int(l.first) > half {
		l.list = l.list[:copy(l.list, l.list[l.first:])]
		l.first = 0
	}
}

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
