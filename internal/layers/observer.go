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

// Observer is told what a store does, for metrics, logs and traces. Each function that is
// set is told of one kind of event; there may be more kinds in later versions, which an
// Observer of today then is not told of. Write it with the names of its fields.
//
// The functions are called by the goroutines that ask the store, before they get their
// answer, and concurrently. So they must be quick and safe for concurrent use: count, do
// not send. A panic of one is recovered and changes nothing for who asked.
type Observer struct {
	// OnCall is told of each call, when it is answered.
	OnCall func(ctx context.Context, call Call)
	// OnFailure is told of each error that a failure policy decided in place of. Such a
	// call has no error for OnCall, since its caller has none. See [Observer.Failure].
	OnFailure func(err error)
	// OnBreaker is told of each change of a breaker's state, in order. It must not ask the
	// store. See [Observer.Breaker].
	OnBreaker func(change BreakerChange)
	// OnPanic is told of the first panic of a function above, which is a bug there. Unless
	// it is set, the panic is logged with log/slog. Later ones are not told of.
	OnPanic func(err error)
}

// Call is one call of a store and what became of it.
type Call struct {
	Op store.Op
	// Requests and Decisions are those of the caller, only to be read, and only until the
	// function returns. Requests may leave out what [store.Request.SetDefaults] fills in. After
	// an error there are no Decisions.
	Requests  []store.Request
	Decisions []store.Decision
	Err       error
	Took      time.Duration
}

// Outcome is what became of the call in one word, as a label for metrics: "allowed" or
// "denied", and of an error "invalid", "unavailable", "outcome-unknown", "gave-up",
// "gave-up-unknown" (the caller gave up, and units may be charged), "refused", "foreign" or
// "error" (one that is not of this package). An error that is of several other kinds has the one that
// says most to an operator: whether units may be charged, whether the store was there.
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

// WithObserver wraps backend so that observer is told of each call: what was asked, what was
// decided and by whom, errors and how long it took. It goes around all other wrappers, so
// that it sees what callers see. It allocates nothing, and without OnCall it is backend itself.
func WithObserver(backend store.Store, observer Observer) store.Store {
	if observer.OnCall == nil {
		return backend
	}
	return store.Wrap(&observerStore{Store: backend, observer: observer.guarded(), start: time.Now()}, backend)
}

type observerStore struct {
	store.Store
	observer *guardedObserver
	start    time.Time // since when time is told, which costs half of time.Now
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

// Breaker returns settings for [WithBreaker] that let o be told of each change, after their
// own OnChange.
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

// Failure returns o.OnFailure for [WithFailure], as a function that does not panic.
func (o Observer) Failure() func(err error) {
	if o.OnFailure == nil {
		return nil
	}
	return o.guarded().onFailure
}

// guardedObserver calls an Observer's functions so that their panics reach nobody.
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

// caught is deferred, and tells of a panic if it is the first.
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
