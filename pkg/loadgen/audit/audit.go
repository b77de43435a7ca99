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
