package layers

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Observer has callbacks about what a store does, for metrics, logs and traces. Each is optional. Later versions
// may add fields, so write it with the names of its fields.
//
// The goroutines that call the store call them before they get their answer, and concurrently. So they must be
// quick and safe for concurrent use: count, do not send. A panic in one is recovered and does not affect the
// caller.
type Observer struct {
	// OnCall gets each call with its answer.
	OnCall func(ctx context.Context, call Call)
	// OnFailure gets each error that a failure policy replaced by a decision. OnCall sees no error then. See
	// [Observer.Failure].
	OnFailure func(err error)
	// OnBreaker gets each change of a breaker's state, in order. It must not call the store. See
	// [Observer.Breaker].
	OnBreaker func(change BreakerChange)
	// OnPanic gets the first panic of the functions above, which is a bug in them. The default is to log it with
	// log/slog. Later panics are not reported.
	OnPanic func(err error)
}

// Call is a call of a store and its result.
type Call struct {
	Op store.Op
	// Requests and Decisions belong to the caller: do not change them, or keep them after the function returns.
	// Requests may leave out what [store.Request.SetDefaults] fills in. After an error there are no Decisions.
	Requests  []store.Request
	Decisions []store.Decision
	Err       error
	Took      time.Duration
}

// Outcome is the result of the call in one word, as a label for metrics: "allowed" or "denied", and for an error
// "invalid", "unavailable", "outcome-unknown", "gave-up", "gave-up-unknown" (the caller gave up, and units may be
// charged), "refused", "foreign" or "error" (one that is not of this package). If several words fit, it is the one
// that tells an operator most: whether units may be charged, and whether the store was there.
func (c *Call) Outcome() string {
	switch err := c.Err; {
	case err == nil && store.AllAllowed(c.Decisions):
		return "allowed"
	case err == nil:
		return "denied"
	case errors.Is(err, store.ErrGaveUp) && errors.Is(err, store.ErrOutcomeUnknown):
		return "gave-up-unknown"
	case errors.Is(err, store.ErrGaveUp):
		return "gave-up"
	case errors.Is(err, store.ErrOutcomeUnknown):
		return "outcome-unknown"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, store.ErrForeign):
		return "foreign"
	case errors.Is(err, store.ErrRefused):
		return "refused"
	case errors.Is(err, store.ErrInvalid):
		return "invalid"
	}
	return "error"
}

// WithObserver wraps backend so that observer gets each call: the requests, the decisions and who made them, errors
// and the duration. It goes around all other layers, so that it sees what callers see. It allocates nothing, and
// without OnCall it returns backend itself.
func WithObserver(backend store.Store, observer Observer) store.Store {
	if observer.OnCall == nil {
		return backend
	}
	return store.Wrap(&observerStore{Store: backend, observer: observer.guarded(), start: time.Now()}, backend)
}

type observerStore struct {
	store.Store
	observer *guardedObserver
	start    time.Time // the base of a monotonic clock, which costs half of time.Now
}

// Decide implements [store.Store].
func (s *observerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	begun := time.Since(s.start)
	err := s.Store.Decide(ctx, op, reqs, decisions)
	call := Call{Op: op, Requests: reqs, Decisions: decisions, Err: err, Took: time.Since(s.start) - begun}
	if err != nil {
		call.Decisions = nil
	}
	s.observer.onCall(ctx, call)
	return err
}

// Breaker returns settings for [WithBreaker] that pass each change to o, after their own OnChange.
func (o Observer) Breaker(settings Breaker) Breaker {
	if o.OnBreaker == nil {
		return settings
	}
	g, own := o.guarded(), settings.OnChange
	settings.OnChange = func(change BreakerChange) {
		if own != nil {
			own(change)
		}
		g.onBreaker(change)
	}
	return settings
}

// Failure returns o.OnFailure for [WithFailurePolicy], protected against panics.
func (o Observer) Failure() func(err error) {
	if o.OnFailure == nil {
		return nil
	}
	return o.guarded().onFailure
}

// guardedObserver recovers the panics of an Observer's functions.
type guardedObserver struct {
	Observer
	hasPanicked atomic.Bool
}

func (o Observer) guarded() *guardedObserver { return &guardedObserver{Observer: o} }

func (g *guardedObserver) onCall(ctx context.Context, call Call) {
	defer g.caught()
	g.OnCall(ctx, call)
}

func (g *guardedObserver) onBreaker(change BreakerChange) {
	defer g.caught()
	g.OnBreaker(change)
}

func (g *guardedObserver) onFailure(err error) {
	defer g.caught()
	g.OnFailure(err)
}

// caught is deferred, and reports the first panic.
func (g *guardedObserver) caught() {
	value := recover()
	if value == nil || !g.hasPanicked.CompareAndSwap(false, true) {
		return
	}
	err := &panics.Error{Value: value, Stack: debug.Stack()}
	panics.Call(func() error {
		if g.OnPanic != nil {
			g.OnPanic(err)
		} else {
			slog.Error("limiter: an observer panicked; this is told once", "panic", err.Error(), "stack", string(err.Stack))
		}
		return nil
	})
}
