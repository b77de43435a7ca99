// Package audit judges, from what a load was admitted and denied, whether a rate
// limit did what it promises. It knows only the answers and the instants they were
// given at, not how they came about.
package audit

import "github.com/limitctl/limitctl/pkg/limiter"

// Observation is one limit's answer to one request.
type Observation struct {
	// Key is the index of the key that was decided about; see [Auditor.SetLimit].
	Key uint32
	// At is the decision's own instant, by the store's clock.
	At limiter.Instant
	// Cost is the units asked for, 1 or more.
	Cost int64
	// Allowed is this limit's answer. Charged says that the units were taken: the
	// limits decided together allowed it, too.
	Allowed, Charged bool
}

// Auditor audits one limit over any number of keys. It is for one goroutine.
type Auditor struct {
	keys    []account
	limits  map[limiter.Limit]*limiter.Limit // as many keys are under one
	finding Finding                          // except for what is computed over all keys
	held    func(limiter.Limit) int64
}

// New returns an Auditor that has seen nothing.
func New() *Auditor { return &Auditor{limits: map[limiter.Limit]*limiter.Limit{}} }

// Excuse says how many units of each key under a limit may be charged and not used, because
// somebody took them ahead. A denial that they explain is not wrong.
func (a *Auditor) Excuse(held func(limiter.Limit) int64) { a.held = held }

// account is what is known of one key.
type account struct {
	limit *limiter.Limit
	// state is what the key would hold if everything charged had been charged to
	// it. A sliding log's is its admissions, and needs no other.
	state      limiter.State
	admissions admissions // of the last period
	charged    int64
	unknown    int64
	denials    int64 // since the last request that was allowed
	denied     bool  // ever
	last       limiter.Instant
	seen       bool
}

// SetLimit says which limit a key is under. It must be called before the first
// observation of the key. limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit limiter.Limit) {
	shared, known := a.limits[limit]
	if !known {
		shared = &limit
		a.limits[limit] = shared
	}
	if missing := int(key) + 1 - len(a.keys); missing > 0 {
		a.keys = append(a.keys, make([]account, missing)...)
	}
	a.keys[key].limit = shared
}

// Observe takes the next answer about a key. Those of one key must come in the
// order they were decided in, and where that cannot be known, of those of one instant
// the denied last. That is the order most favourable to the store, so what looks
// wrong then is wrong in any order.
func (a *Auditor) Observe(o Observation) {
	k := &a.keys[o.Key]
	k.seen = true
	if o.At < k.last {
		a.finding.OutOfOrder++
		o.At = k.last
	}
	k.last = o.At
	used, capacity := k.used(o.At), k.limit.Capacity()
	switch after := used + o.Cost; {
	case o.Charged:
		a.finding.PeakRatio = max(a.finding.PeakRatio, float64(after)/float64(capacity))
	case !o.Allowed && after > capacity:
		a.finding.PeakRatio = max(a.finding.PeakRatio, 1)
	}
	switch {
	case o.Charged:
		if beyond := used + o.Cost - capacity; beyond > 0 {
			a.finding.OverAdmitted += min(beyond, o.Cost)
		}
		a.charge(k, &o)
	case !o.Allowed && used+o.Cost+k.unknown <= capacity:
		if a.held != nil && used+o.Cost+k.unknown+a.held(*k.limit) > capacity {
			a.finding.Excused += o.Cost
		} else {
			a.finding.UnderAdmitted += o.Cost
		}
	}
	if o.Allowed {
		k.denials = 0
		return
	}
	k.denied = true
	k.denials++
	a.finding.Denied++
	a.finding.LongestDenialRun = max(a.finding.LongestDenialRun, k.denials)
}

// used returns the units in use at an instant that is not before the last one.
func (k *account) used(at limiter.Instant) int64 {
	if !k.limit.Kind().CountsEachUnit() {
		return k.state.Used(at)
	}
	k.admissions.forget(k.periodBefore(at))
	return k.admissions.units
}

// periodBefore is the last instant before the span of one period that ends at at.
func (k *account) periodBefore(at limiter.Instant) limiter.Instant {
	return at - limiter.Instant(k.limit.Period.Microseconds())
}

func (a *Auditor) charge(k *account, o *Observation) {
	k.charged += o.Cost
	k.admissions.forget(k.periodBefore(o.At))
	k.admissions.add(o.At, o.Cost)
	a.finding.WorstUnits = max(a.finding.WorstUnits, k.admissions.units)
	most := k.admissions.units
	if !k.limit.Kind().CountsEachUnit() {
		k.state.Charge(*k.limit, o.Cost, o.At)
	}
	if k.limit.Algorithm.HasBurst() {
		most = k.state.Used(o.At)
	}
	a.finding.WorstRatio = max(a.finding.WorstRatio, float64(most)/float64(k.limit.Capacity()))
}

// Unknown says that cost units may have been charged to key, or not. A denial that they
// can explain does not count as wrong.
func (a *Auditor) Unknown(key uint32, cost int64) {
	a.keys[key].seen = true
	a.keys[key].unknown += cost
}

// Finding returns what was found so far. It looks at every key.
func (a *Auditor) Finding() Finding {
	f := a.finding
	for i := range a.keys {
		k := &a.keys[i]
		if !k.seen {
			continue
		}
		f.Keys++
		if k.denied {
			f.KeysDenied++
		}
		x := float64(k.charged)
		f.Charged += x
		f.ChargedSquares += x * x
	}
	f.Fairness = Fairness(f.Keys, f.Charged, f.ChargedSquares)
	return f
}

// Fairness returns Jain's index (R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure
// of Fairness and Discrimination", 1984) of n shares by their sum and the sum of their
// squares. It is 1 if there is nothing to share.
func Fairness(n int64, sum, squares float64) float64 {
	if n == 0 || squares == 0 {
		return 1
	}
	return sum * sum / (float64(n) * squares)
}
