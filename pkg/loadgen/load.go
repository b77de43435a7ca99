package loadgen

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
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

// chooser chooses the subject and the cost of each request.
type chooser struct {
	mix             Mix
	subjects, costs *rand.Rand
}

func (m *Mix) chooser(subjects, costs *rand.Rand) chooser { return chooser{*m, subjects, costs} }

func (c *chooser) next() (subject uint32, cost int64) {
	return c.mix.Subjects.choose(c.subjects), c.mix.Costs.choose(c.costs)
}

// Costs are the costs of requests: whole numbers from Least to Most, all equally likely.
type Costs struct{ Least, Most int64 }

func (c Costs) choose(random *rand.Rand) int64 {
	if c.Least == c.Most {
		return c.Least
	}
	return c.Least + random.Int64N(c.Most-c.Least+1)
}

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
