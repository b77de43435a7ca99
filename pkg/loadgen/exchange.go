package loadgen

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

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
