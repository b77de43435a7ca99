// Package interval judges limits that somebody else decides, such as an HTTP service's. When
// exactly the other side decided is not known, only that it was between the sending of a
// request and its answer. So what is called wrong is wrong for every instant in between.
//
// Two models of each key go with the answers. The kindest one charges what was admitted as
// early as it can have been: what it cannot charge within a limit was too much. The fullest
// one charges everything as late as it can have been: a denial for which it still has room
// was wrong. docs/design/load-testing-and-audit.md says why both are right.
package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
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
	// Skew is by how much the other side's windows may lie beside those of the clock here, for
	// windows that are aligned to the epoch. Negative means that their phase is not known
	// and has to be found.
	Skew time.Duration
	// UsedBefore says that keys may be in use when their first request is sent, up to their whole
	// limit. Otherwise nothing was used before.
	UsedBefore bool
}

// unansweredFor is how long after a request was given up it may still be decided. Proxies and
// servers give up within a minute as well.
const unansweredFor = store.Instant(time.Minute / time.Microsecond)

// Auditor audits one limit over any number of keys. It is for one goroutine.
type Auditor struct {
	resolution store.Instant
	skew       store.Instant // negative if the phase is not known
	usedBefore bool
	limits     map[store.Limit]*store.Limit
	groupOf    map[groupID]*group
	groups     []*group       // the same in the order in which they were seen
	setups     []*store.Limit // of each key
	keys       []*account     // nil until the key is seen

	queue   events
	settled store.Instant // what lies before it is judged
	finding audit.Finding // what is counted as answers come, without a model
}

// New returns an Auditor that has seen nothing.
func New(options Options) *Auditor {
	return &Auditor{
		resolution: microseconds(options.Resolution),
		skew:       microseconds(options.Skew),
		usedBefore: options.UsedBefore,
		limits:     map[store.Limit]*store.Limit{},
		groupOf:    map[groupID]*group{},
	}
}

// microseconds rounds away from 0.
func microseconds(d time.Duration) store.Instant {
	if d < 0 {
		return -microseconds(-d)
	}
	return store.Instant((d + time.Microsecond - 1) / time.Microsecond)
}

// SetLimit says which limit a key is under. It must be called before the first observation of
// the key. limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit store.Limit) {
	shared, known := a.limits[limit]
	if !known {
		shared = &limit
		a.limits[limit] = shared
	}
	if missing := int(key) + 1 - len(a.setups); missing > 0 {
		a.setups = append(a.setups, make([]*store.Limit, missing)...)
		a.keys = append(a.keys, make([]*account, missing)...)
	}
	a.setups[key] = shared
}

// Observe takes an answer. They may come in any order.
func (a *Auditor) Observe(o Observation) {
	e := event{
		lo: o.Sent - a.resolution, hi: o.Answered + a.resolution + 1, // an instant is cut to the microsecond
		key: o.Key, cost: o.Cost, answer: o.Answer, reported: o.Reported,
	}
	if o.Answer != Admitted && o.Answer != Denied || !isHeld(a.setups[o.Key]) {
		e.reported = nil
	}
	if o.Answer == Unknown {
		e.hi += unansweredFor
	}
	if e.lo < a.settled {
		a.finding.OutOfOrder++
		if o.Answer == Denied {
			return // it may have had a reason that is forgotten
		}
		e.lo, e.hi, e.answer, e.reported = a.settled, max(e.hi, a.settled), Uncertain, nil
	}
	e.at = e.lo
	a.queue.push(e)
}

// Settle says that no answer to a request that was sent before an instant is still to come, so
// that what lies before it can be judged and forgotten.
func (a *Auditor) Settle(before store.Instant) {
	before -= a.resolution
	judged := len(a.queue) > 0
	for len(a.queue) > 0 && a.queue[0].at < before {
		e := a.queue.pop()
		if e.end {
			k := a.keys[e.key]
			k.group.follow(e.at)
			k.end(a, &e)
			continue
		}
		k := a.account(&e)
		k.group.follow(e.at)
		k.begin(a, &e)
		e.at, e.end = e.hi, true
		a.queue.push(e)
	}
	if judged && len(a.queue) == 0 {
		a.finish(min(before, maxInstant/2))
	}
	a.settled = max(a.settled, before)
	for _, g := range a.groups {
		g.narrow(before)
	}
}

// account returns what is known of the key of a request that begins.
func (a *Auditor) account(e *event) *account {
	if k := a.keys[e.key]; k != nil {
		if k.group.own {
			a.restart(k, e)
		}
		return k
	}
	limit := a.setups[e.key]
	k := a.group(limit, e).newAccount(limit)
	if a.usedBefore {
		k.usedBefore(a, e)
	}
	a.keys[e.key] = k
	return k
}

// finish judges, when nothing is under way, what was decided before an instant.
func (a *Auditor) finish(before store.Instant) {
	for _, g := range a.groups {
		for _, k := range g.keys {
			k.settle(before)
		}
	}
}
