package loadgen

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Exchanger is a [store.Store] that has somebody else decide, by an exchange of which it knows
// more than that it is over. [Run] calls Exchange in place of Decide.
type Exchanger interface {
	store.Store
	// Exchange sends one request of a subject of the [Population], at a cost, for all of its
	// limits together. sent is the instant before the request was written, and answered that at
	// which its answer was there. They leave out what the exchange needs only once, such as a
	// connection. Either is zero if it did not come to that.
	Exchange(ctx context.Context, subject uint32, cost int64) (allowed bool, sent, answered time.Time, err error)
}

// exchange has somebody else decide and returns when the request was sent and answered, from the
// beginning of the run. began is when the exchange began.
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
