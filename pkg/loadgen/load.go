package loadgen

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Arrival is one request of a load.
type Arrival struct {
	// Due is when it is due, from the beginning of the run.
	Due time.Duration
	// Subject is the index of the subject.
	Subject uint32
	// Cost is its cost in units, 1 or more.
	Cost int64
}

// Load is a run's requests, in the order in which they are due. It is for one goroutine.
type Load interface {
	// Next returns the next request, and false when there are no more.
	Next() (Arrival, bool)
}

// Mix is the distribution of subjects and costs.
type Mix struct {
	Subjects Distribution
	Costs    Costs
}

// mixed is a Load of a schedule and a mix.
type mixed struct {
	schedule Schedule
	chooser  chooser
}

// NewLoad returns the Load of a schedule, with the subjects and costs of a mix.
func NewLoad(schedule Schedule, mix Mix, seed uint64) Load {
	return &mixed{schedule, mix.chooser(newRandom(seed, streamSubjects), newRandom(seed, streamCosts), 0, 1)}
}

func (m *mixed) Next() (Arrival, bool) {
	due, ok := m.schedule.Next()
	if !ok {
		return Arrival{}, false
	}
	subject, cost := m.chooser.next()
	return Arrival{due, subject, cost}, true
}

// chooser chooses the subject and the cost of each request.
type chooser struct {
	mix             Mix
	subjects, costs *rand.Rand
	turn, step      uint64 // if subjects take turns
}

func (m *Mix) chooser(subjects, costs *rand.Rand, first, step uint64) chooser {
	return chooser{*m, subjects, costs, first, step}
}

func (c *chooser) next() (subject uint32, cost int64) {
	subject = c.mix.Subjects.choose(c.subjects, c.turn)
	c.turn += c.step
	return subject, c.mix.Costs.choose(c.costs)
}

// Costs are the costs of requests: whole numbers from Least to Most, all equally likely.
type Costs struct{ Least, Most int64 }

func (c Costs) choose(random *rand.Rand) int64 {
	if c.Least == c.Most {
		return c.Least
	}
	return c.Least + random.Int64N(c.Most-c.Least+1)
}

// Result is the result of a run. The one that [Config.Progress] gets changes during the run, and is valid only
// during that call.
type Result struct {
	Started time.Time
	// Elapsed is the time from the beginning to the last answer. If the whole schedule was sent, it lasts at least
	// until the end of the schedule, so that rates refer to the whole schedule.
	Elapsed     time.Duration
	Interrupted bool

	// Requests is the number that were sent after the warm-up. Each was allowed or denied, or ended in an error;
	// Unknown counts the errors after which the store may have charged, and TimedOut those of requests that were
	// not answered in time.
	Requests, Allowed, Denied, Errors, Unknown, TimedOut int64
	// Decided counts the requests that were allowed or denied, including the warm-up. The cost of a run is for all
	// of these.
	Decided int64
	// Dropped counts the requests that were not sent, because they were late by more than the timeout.
	Dropped int64
	// Late counts the requests that were answered more than [Config.LateAfter] after they were due.
	Late int64
	// Waited counts the requests that found all workers busy when they were handed out, and waited for one.
	Waited int64

	// Latency is the time from when a request was due to its answer, and Service the time from its sending, for
	// requests that were allowed or denied. AllowedService and DeniedService are the Service of each. ErrorLatency is the
	// time from when a request was due to its error. Lag is how much later than due a request was ready to be sent; if it
	// waited for a worker, it is how late this machine was at that time. All are in microseconds, rounded up.
	Latency, Service, AllowedService, DeniedService, ErrorLatency, Lag *hdrhistogram.Histogram

	// Timeline has the answers of each Interval of the run, by the time of the answer.
	Interval time.Duration
	Timeline []Interval
	// Tally has the counts of each subject.
	Tally *Tally
	// Findings are the audits of the limits. They include the warm-up.
	Findings []audit.Finding
	// ClockWentBack counts the answers, of any limit, with an instant before one that was known when they were
	// requested. The order of such decisions is unknown, so the audit can be wrong about them.
	ClockWentBack int64
	// Clock is the finding about the clock that decided.
	Clock ClockFinding
	// ErrorTexts counts the errors by their text, and FirstError is the first.
	ErrorTexts map[string]int64
	FirstError error

	throttled bool // a worker had to wait until its records were taken
}

// Interval is a part of a [Result]'s timeline.
type Interval struct {
	Offset                           time.Duration // from the beginning of the run
	Allowed, Denied, Errors, Dropped int64
	P50, P99, Max                    time.Duration // of the latency of all, including errors
}

// GeneratorLimited reports whether this machine was too slow to keep the schedule, so that the latencies are about
// the machine and not about the store. It compares the lag with the store's service time, since the latency says
// nothing once requests wait for workers.
func (r *Result) GeneratorLimited() bool {
	if r.throttled {
		return true
	}
	// With few requests the p99 is a single request, which says nothing about the others.
	percentile := 99.0
	if n := float64(r.Lag.TotalCount()); n > 0 {
		percentile = min(99, max(50, 100*(1-fewLate/n)))
	}
	lag := r.Lag.ValueAtPercentile(percentile)
	times := r.Service
	if times.TotalCount() == 0 {
		times = r.ErrorLatency
	}
	return lag > lateTimers && lag > times.ValueAtPercentile(percentile)/10
}

// lateTimers is how late timers usually are, in microseconds, and somewhat more.
const lateTimers = 2000

// fewLate is a number of late requests that is no reason to doubt the others.
const fewLate = 10

// Exchanger is a [store.Store] in front of a remote decider that can say when the request was sent and answered.
// [Run] calls Exchange instead of Decide.
type Exchanger interface {
	store.Store
	// Exchange sends one request of a subject of the [Population], at a cost, for all of its limits together.
	Exchange(ctx context.Context, subject uint32, cost int64) (Exchanged, error)
}

// Exchanged is the answer to a request that an [Exchanger] sent.
type Exchanged struct {
	Allowed bool
	// Sent is the instant before the request was written, and Answered the instant at which its answer was complete.
	// They leave out one-time work, such as a connection. Either is zero if it was not reached.
	Sent, Answered time.Time
	// Reported is what the answer said about the only limit; nil if nothing.
	Reported *interval.Reported
}

// exchange calls e and returns when the request was sent and answered, since the beginning of the run. began is
// when the call began.
func (w *worker) exchange(e Exchanger, a Arrival, began time.Duration) (sent, answered time.Duration, err error) {
	r := w.run
	answer, err := e.Exchange(r.deadlines.at(r.begin, began), a.Subject, a.Cost)
	for i := range w.decisions {
		w.decisions[i] = store.Decision{Allowed: answer.Allowed}
	}
	w.reported = answer.Reported
	if sent = began; !answer.Sent.IsZero() {
		sent = answer.Sent.Sub(r.begin)
	}
	if answer.Answered.IsZero() {
		return sent, r.elapsed(), err
	}
	return sent, answer.Answered.Sub(r.begin), err
}
