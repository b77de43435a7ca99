package loadgen

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Recorded is the answer to a request that somebody else sent, at a cost of 1 where limits have none of their own.
type Recorded struct {
	// Sent and Answered bound the instant of the decision, and Took is how long the answer took.
	Sent, Answered store.Instant
	Took           time.Duration
	Subject        uint32 // of the Population
	Allowed        bool
	// Err is why there was no decision; nil if there was one. The request may have been charged all the same.
	Err error
	// Reported is what the answer said about the limit; nil if nothing.
	Reported *interval.Reported
}

// sample is the answer as a run that began at an instant has it.
func (a *Recorded) sample(begin store.Instant) sample {
	s := sample{
		answered: begin.Until(a.Answered), latency: a.Took, service: a.Took, subject: a.Subject, outcome: denied,
	}
	if a.Allowed {
		s.outcome = allowed
	}
	if a.Err != nil {
		s.outcome = unknown
	}
	return s
}

// AuditRecorded counts and audits recorded answers, of which there is one at least. It puts them in order.
func AuditRecorded(p *Population, answers []Recorded, options interval.Options) *Result {
	slices.SortStableFunc(answers, func(a, b Recorded) int { return cmp.Compare(a.Answered, b.Answered) })
	begin, end := answers[0].Sent, answers[len(answers)-1].Answered
	for i := range answers {
		begin = min(begin, answers[i].Sent)
	}
	r := &runner{
		Config: Config{Population: p, Intervals: &options, LateAfter: math.MaxInt64},
		begin:  begin.Time(), end: begin.Until(end),
	}
	c := newCollector(r)
	for i := range answers {
		s := answers[i].sample(begin)
		if c.add(&s); answers[i].Err != nil {
			c.addError(answers[i].Err)
		}
	}
	slices.SortStableFunc(answers, func(a, b Recorded) int { return cmp.Compare(a.Sent, b.Sent) })
	w := &worker{run: r}
	for i := range answers {
		a := &answers[i]
		s := a.sample(begin)
		w.reported = a.Reported
		w.recordInterval(p.KeyIndexes(a.Subject), p.own, 1, begin.Until(a.Sent), s.answered, &s)
		if len(w.filled.intervals) >= checkEvery || i == len(answers)-1 {
			c.addIntervals(w.filled.intervals)
			c.foldIntervals(a.Sent) // the rest was not sent before
			w.filled.reset()
		}
	}
	c.foldIntervals(store.Instant(idle))
	result := c.result(begin.Until(end))
	result.LateAfterMS = 0
	return result
}
