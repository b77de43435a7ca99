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

// auditIntervals prepares the audit of intervals, if the run has one.
func (c *collector) auditIntervals() {
	p := c.run.Population
	for limit := 0; c.run.Intervals != nil && limit < p.limits; limit++ {
		auditor := interval.New(*c.run.Intervals)
		for key, owner := range p.owners[limit] {
			auditor.SetLimit(uint32(key), p.requests[owner].Limit)
		}
		c.intervals = append(c.intervals, auditor)
	}
}

// complete returns the time up to which all answers are recorded.
func (c *collector) complete() time.Duration {
	until := c.run.elapsed()
	for _, w := range c.run.workers {
		until = min(until, time.Duration(w.sending.since.Load()))
	}
	return until
}

// foldIntervals audits the answers to requests that were sent before an instant.
func (c *collector) foldIntervals(before store.Instant) {
	for _, auditor := range c.intervals {
		auditor.Settle(before)
	}
}

// addIntervals adds answers.
func (c *collector) addIntervals(answers []intervalAnswer) {
	for i := range answers {
		c.intervals[answers[i].limit].Observe(answers[i].Observation)
	}
}
