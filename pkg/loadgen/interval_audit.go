package loadgen

import (
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// intervalAnswer is one limit's answer to one request, given at an unknown time between sent and answered.
type intervalAnswer struct {
	interval.Observation
	limit uint8
}

// sending is the time since which a worker has had a request under way, from the beginning of the run; idle if it
// has none.
type sending struct{ since atomic.Int64 }

// begin is called before a request is sent. It returns the instant that counts as the sending: it reads the clock
// only after it has stored since, so that the collector knows that nothing earlier can still come.
func (s *sending) begin(r *runner, sent time.Duration) time.Duration {
	if r.Intervals == nil {
		return sent
	}
	s.since.Store(int64(sent))
	return r.elapsed()
}

// recordInterval records the answers of all limits to a request.
func (w *worker) recordInterval(keys []uint32, own []int64, cost int64, sent, answered time.Duration, s *sample) {
	answer := interval.Unknown
	switch {
	case s.outcome == failed:
		return // it was not sent
	case s.outcome == unknown:
	case s.outcome == allowed:
		answer = interval.Admitted
	case len(keys) == 1:
		answer = interval.Denied
	default:
		answer = interval.Uncertain // nobody knows which of the limits denied
	}
	reported := w.reported
	if len(keys) > 1 {
		reported = nil // nobody knows which of the limits it is about
	}
	for limit, key := range keys {
		w.filled.intervals = append(w.filled.intervals, intervalAnswer{interval.Observation{
			Key: key, Sent: store.InstantOf(w.run.begin.Add(sent)), Answered: store.InstantOf(
				w.run.begin.Add(answered)),
			Cost: costOf(own, limit, cost), Answer: answer, Reported: reported}, uint8(limit)})
	}
}

// intervalAudit audits answers by the intervals between sending and answer.
type intervalAudit struct {
	auditors []*interval.Auditor
	safe     time.Duration // of the last collection
}

// newIntervalAudit returns nil if intervals are not audited.
func newIntervalAudit(r *runner) *intervalAudit {
	if r.Intervals == nil {
		return nil
	}
	a := new(intervalAudit)
	p := r.Population
	for limit := range p.limits {
		auditor := interval.New(*r.Intervals)
		for key, owner := range p.owners[limit] {
			auditor.SetLimit(uint32(key), p.requests[owner].Limit)
		}
		a.auditors = append(a.auditors, auditor)
	}
	return a
}

// ready notes, before a collection, the time up to which it will be complete.
func (a *intervalAudit) ready(r *runner) {
	if a == nil {
		return
	}
	a.safe = r.elapsed()
	for _, w := range r.workers {
		a.safe = min(a.safe, time.Duration(w.sending.since.Load()))
	}
}

// add adds answers.
func (a *intervalAudit) add(answers []intervalAnswer) {
	for i := range answers {
		a.auditors[answers[i].limit].Observe(answers[i].Observation)
	}
}

// fold audits the answers that are complete.
func (a *intervalAudit) fold(r *runner, finished bool) {
	if a == nil {
		return
	}
	safe := store.InstantOf(r.begin.Add(a.safe))
	if finished {
		safe = store.Instant(idle)
	}
	for _, auditor := range a.auditors {
		auditor.Settle(safe)
	}
}
