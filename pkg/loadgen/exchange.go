package loadgen

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Exchanger is a [store.Store] in front of a remote decider that can say when the request was sent and answered.
// [Run] calls Exchange instead of Decide.
type Exchanger interface {
	store.Store
	// Exchange sends one request of a subject of the [Population], at a cost, for all of its limits together. sent
	// is the instant before the request is written, and answered the instant at which its answer is complete. They
	// leave out one-time work, such as a connection. Either is zero if it was not reached.
	Exchange(ctx context.Context, subject uint32, cost int64) (allowed bool, sent, answered time.Time, err error)
}

// exchange calls e and returns when the request was sent and answered, since the beginning of the run. began is
// when the call began.
func (w *worker) exchange(e Exchanger, a Arrival, began time.Duration) (sent, answered time.Duration, err error) {
	r := w.run
	allowed, wrote, came, err := e.Exchange(r.deadlines.at(r.begin, began), a.Subject, a.Cost)
	for i := range w.decisions {
		w.decisions[i] = store.Decision{Allowed: allowed}
	}
	if sent = began; !wrote.IsZero() {
		sent = wrote.Sub(r.begin)
	}
	if came.IsZero() {
		return sent, r.elapsed(), err
	}
	return sent, came.Sub(r.begin), err
}
