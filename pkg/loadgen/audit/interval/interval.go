// Package interval judges limits that somebody else decides, such as an HTTP service's. When
// exactly the other side decided is not known, only that it was between the sending of a
// request and its answer. So what is called wrong is wrong for every instant in between.
package interval

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Observation is the answer to one request.
type Observation struct {
	// Key is the index of the key that was decided about; see [Auditor.SetLimit].
	Key uint32
	// Sent is the instant before the request was sent, and Answered that after its answer
	// came, by the clock of whoever asked. It was decided in between, if at all.
	Sent, Answered limiter.Instant
	// Cost is the units asked for, 1 or more.
	Cost int64
	// Answer is what became of it.
	Answer Answer
}

// Answer is what became of a request.
type Answer uint8

const (
	// Admitted: the request was let through, and its cost counts.
	Admitted Answer = iota
	// Denied: this limit, or one that was decided together with it, turned it away.
	Denied
	// Unknown: an error. It may have been let through and counted, or not.
	Unknown
)

// Options say what is known about the other side.
type Options struct {
	// Resolution is how exactly the other side's clock is read: what it takes for a span of one
	// period may be off by so much. Intervals are widened by it.
	Resolution time.Duration
	// Skew is by how much the other side's windows may lie beside those of the clock here, for
	// windows that are aligned to the epoch. Negative means that their phase is not known
	// and has to be found.
	Skew time.Duration
}

// Auditor audits one limit over any number of keys. It is for one goroutine.
type Auditor struct{}

// New returns an Auditor that has seen nothing.
func New(options Options) *Auditor { return &Auditor{} }

// SetLimit says which limit a key is under. It must be called before the first observation of
// the key. limit must be normalized.
func (a *Auditor) SetLimit(key uint32, limit limiter.Limit) {}

// Observe takes an answer. They may come in any order.
func (a *Auditor) Observe(o Observation) {}

// Settle says that no answer to a request that was sent before an instant is still to come, so
// that what lies before it can be judged and forgotten.
func (a *Auditor) Settle(before limiter.Instant) {}

// Finding returns what was found so far. What is not judged yet is left out.
func (a *Auditor) Finding() audit.Finding { return audit.Finding{} }
