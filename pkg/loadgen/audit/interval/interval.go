// Package interval judges limits that somebody else decides, such as an HTTP service's. When exactly the other side
// decided is not known, only that it was between the sending of a request and its answer. So what is called wrong is
// wrong for every instant in between, and wherever windows begin.
//
// Of each key there are two bounds: what was charged for certain, each unit as early as it can have been, finds what
// was too much; what was charged possibly, each unit as late as it can have been, finds denials without a reason.
// ARCHITECTURE.md says why both are right.
package interval

import (
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Answer is what became of a request.
type Answer uint8

const (
	// Admitted: the request was let through, and its cost counts.
	Admitted Answer = iota
	// Denied: this limit turned it away.
	Denied
	// Unknown: no answer came. It may have been let through and counted, or not, until a minute after it was given up.
	Unknown
	// Uncertain: it was turned away, perhaps by another limit that was decided together with
	// this one. It may have been counted before, or not.
	Uncertain
)

// Observation is the answer to one request.
type Observation struct {
	// Key is the index of the key that was decided about; see [Auditor.SetLimit].
	Key uint32
	// Sent is the instant before the request was sent, and Answered that after its answer
	// came, by the clock of whoever asked. It was decided in between, if at all.
	Sent, Answered store.Instant
	// Cost is the units asked for, 1 or more.
	Cost int64
	// Answer is what became of it.
	Answer Answer
	// Reported is what the answer said about the limit; nil if nothing.
	Reported *Reported
}

// Options say what is known about the other side.
type Options struct {
	// Resolution is how exactly the other side's clock is read: what it takes for a span of one
	// period may be off by so much. Intervals are widened by it.
	Resolution time.Duration
	// UsedBefore says that keys may be in use when their first request is sent, up to their whole
	// limit. Otherwise nothing was used before.
	UsedBefore bool
}

const (
	// unansweredFor is how long after a request was given up it may still be decided. Proxies and
	// servers give up within a minute as well.
	unansweredFor = store.Instant(time.Minute / time.Microsecond)
	maxInstant    = store.Instant(1<<63 - 1)
)

// Auditor audits one limit over any number of keys. It is for one goroutine.
type Auditor struct {
	resolution store.Instant
	usedBefore bool
	limits     []store.Limit // of each key
	keys       []*account    // nil until the key is seen

	events  []event       // that are not settled
	finding audit.Finding // what is counted as answers come
	// underFree and underCharged are the units denied without a reason by limits that may charge what they deny: if
	// they do not, and if they do. deniedFree says that they cannot have charged all of it.
	underFree, underCharged int64
	deniedFree              bool
}

// New returns an Auditor that has seen nothing.
func New(options Options) *Auditor {
	return &Auditor{resolution: microseconds(options.Resolution), usedBefore: options.UsedBefore}
}

// microseconds rounds up.
func microseconds(d time.Duration) store.Instant {
	return store.Instant((d + time.Microsecond - 1) / time.Microsecond)
}

// SetLimit says which limit a key is under. It must be called before the first observation of
// the key. limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit store.Limit) {
	if missing := int(key) + 1 - len(a.limits); missing > 0 {
		a.limits = append(a.limits, make([]store.Limit, missing)...)
		a.keys = append(a.keys, make([]*account, missing)...)
	}
	a.limits[key] = limit
}

// Observe takes an answer. They may come in any order, but not before what is settled.
func (a *Auditor) Observe(o Observation) {
	r := &request{
		lo: o.Sent - a.resolution, hi: o.Answered + a.resolution + 1, // an instant is cut to the microsecond
		key: o.Key, cost: o.Cost, answer: o.Answer, reported: o.Reported,
	}
	if o.Answer != Admitted && o.Answer != Denied {
		r.reported = nil
	}
	if o.Answer == Unknown {
		r.hi += unansweredFor
	}
	a.events = append(a.events, event{r, r.lo, false}, event{r, r.hi, true})
}

// Settle says that no answer to a request that was sent before an instant is still to come, so
// that what lies before it can be judged and forgotten.
func (a *Auditor) Settle(before store.Instant) {
	before -= a.resolution
	slices.SortFunc(a.events, event.compare)
	n := 0
	for ; n < len(a.events) && a.events[n].at < before; n++ {
		r := a.events[n].request
		if a.keys[r.key] == nil {
			limit := a.limits[r.key]
			a.keys[r.key] = newAccount(&limit)
			if a.usedBefore {
				a.keys[r.key].usedBefore(r.lo + 2*a.resolution + 1)
			}
		}
		if a.events[n].end {
			a.keys[r.key].end(a, r)
		} else {
			a.keys[r.key].begin(a, r)
		}
	}
	a.events = slices.Delete(a.events, 0, n)
}

// Finding returns what was found so far. What is not judged yet is left out. All of it is certain.
func (a *Auditor) Finding() audit.Finding {
	f, keysUnderFree := a.finding, int64(0)
	for _, k := range a.keys {
		if k == nil {
			continue
		}
		f.Keys++
		if k.denied {
			f.KeysDenied++
		}
		if k.over {
			f.KeysOver++
		}
		switch {
		case k.under && k.countsDenials:
			keysUnderFree++
		case k.under:
			f.KeysUnder++
		}
		x := float64(k.charged)
		f.Charged += x
		f.ChargedSquares += x * x
		f.PeakRatio = max(f.PeakRatio, k.peak)
		f.WorstUnits = max(f.WorstUnits, k.least.worstUnits)
		f.WorstRatio = max(f.WorstRatio, k.least.worst)
	}
	if a.chargesDenied() {
		f.UnderIfFree = a.underFree
	} else {
		f.UnderAdmitted += a.underFree
		f.KeysUnder += keysUnderFree
	}
	f.Fairness = audit.Fairness(f.Keys, f.Charged, f.ChargedSquares)
	return f
}

// chargesDenied reports whether all denials had a reason if what was denied was charged as well, as many limiters do.
func (a *Auditor) chargesDenied() bool {
	return a.underFree > 0 && a.underCharged == 0 && !a.deniedFree
}
