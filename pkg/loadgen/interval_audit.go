package loadgen

import (
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// intervalAnswer is one limit's answer to one request, if all that is known of when it was
// given is that it was from sent to answered, counted from the beginning of the run.
type intervalAnswer struct {
	sent, answered time.Duration
	key, cost      uint32
	limit          uint8
	answer         interval.Answer
}

// sending says since when a worker has had a request under way, counted from the beginning of the
// run. It is idle if none is.
type sending struct{ since atomic.Int64 }

// begin is called before a request is sent. It returns the instant from which the request
// counts as sent: one read only after since was stored, so that the collector can tell that
// nothing earlier is still to come.
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
	case s.outcome == unknown, !IsLimit(s.decider):
	case s.outcome == allowed:
		answer = interval.Admitted
	case len(keys) == 1:
		answer = interval.Denied
	default:
		answer = interval.Uncertain // which of the limits denied is not known
	}
	for limit, key := range keys {
		w.filled.intervals = append(w.filled.intervals,
			intervalAnswer{sent, answered, key, uint32(costOf(own, limit, cost)), uint8(limit), answer})
	}
}

// intervalAudit audits answers by the intervals in which they were given.
type intervalAudit struct {
	auditors []*interval.Auditor
	safe     time.Duration // of what was fetched last
}

// newIntervalAudit returns nil if there is none to be.
func newIntervalAudit(r *runner) *intervalAudit {
	if r.Intervals == nil {
		return nil
	}
	a := &intervalAudit{}
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

// ready notes, before the answers are fetched, up to when they will be complete.
func (a *intervalAudit) ready(r *runner) {
	if a == nil {
		return
	}
	a.safe = r.elapsed()
	for _, w := range r.workers {
		a.safe = min(a.safe, time.Duration(w.sending.since.Load()))
	}
}

// add takes answers.
func (a *intervalAudit) add(r *runner, answers []intervalAnswer) {
	for i := range answers {
		o := &answers[i]
		a.auditors[o.limit].Observe(interval.Observation{
			Key: o.key, Sent: store.InstantOf(r.begin.Add(o.sent)), Answered: store.InstantOf(r.begin.Add(o.answered)),
			Cost: int64(o.cost), Answer: o.answer,
		})
	}
}

// fold judges what is complete.
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

// findings returns what was found in each limit, and how far that could be seen.
func (a *intervalAudit) findings() (findings []audit.Finding, sights []interval.Sight) {
	for _, auditor := range a.auditors {
		findings, sights = append(findings, auditor.Finding()), append(sights, auditor.Sight())
	}
	return findings, sights
}
