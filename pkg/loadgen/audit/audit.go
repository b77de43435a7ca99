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

// Finding is what an audit of one limit over all of its keys found.
type Finding struct {
	// WorstRatio is the most that any key was admitted against the limit: 1 is
	// exactly the limit. For an algorithm that counts windows it is the most units
	// in any span of one period against the count. For a bucket it is the fullest
	// that it was against its burst, which is more than 1 exactly if in some span
	// of time more than burst + span × count ÷ period was admitted.
	WorstRatio float64
	// WorstUnits is the most units that any key was admitted in a span of one
	// period, open at one end.
	WorstUnits int64
	// OverAdmitted is the units charged that the algorithm, having charged
	// everything that was charged before, would not have allowed. UnderAdmitted
	// is the units denied that it would have allowed.
	OverAdmitted, UnderAdmitted int64
	// LongestDenialRun is the most requests of one key denied one after the other.
	LongestDenialRun int64
	// Fairness is Jain's index, (Σx)² ÷ (n × Σx²), of the units charged to each of
	// the n keys that asked: 1 if all had as many, 1/n if one had all. It is 1 if
	// nothing was charged.
	Fairness float64
	// Keys is the keys that asked, and KeysDenied those denied at least once.
	Keys, KeysDenied int64
	// Denied is the requests this limit denied.
	Denied int64
	// OutOfOrder is the observations that came too late to be put in their place.
	OutOfOrder int64
}

// Auditor audits one limit over any number of keys. It is for one goroutine.
type Auditor struct{}

// New returns an Auditor that has seen nothing.
func New() *Auditor { return &Auditor{} }

// SetLimit says which limit key is under; before the first observation of key.
// limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit limiter.Limit) {}

// Observe takes the next answer about a key. Those of one key must come in the
// order they were decided in, and where that cannot be known, those of one instant
// in this order: allowed and not charged, charged, denied.
func (a *Auditor) Observe(o *Observation) {}

// Unknown says that cost units may have been charged to key, or not. A denial that
// they explain is not held against the limit.
func (a *Auditor) Unknown(key uint32, cost int64) {}

// Finding returns what was found so far.
func (a *Auditor) Finding() Finding { return Finding{} }
