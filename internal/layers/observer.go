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

// Observer sees what all layers of a stack do; see limiter.Observer. Each function is optional, and called concurrently
// by the goroutines that call the store. A panic in one is recovered and does not reach the caller.
type Observer struct {
	// OnCall gets each call as its caller sees it, and OnStoreCall each call that reaches the store.
	OnCall, OnStoreCall func(ctx context.Context, call Call)
	// OnFailure gets each error that a failure policy replaced by a decision. OnCall sees no error then.
	OnFailure func(err error)
	// OnBreaker gets each change of a breaker's state, in order. It must not call the store.
	OnBreaker func(change store.BreakerChange)
	// OnOverrides gets the error when overrides can no longer be read, once, and nil when they can be read again.
	OnOverrides func(err error)
	// OnDenialLog gets the error when denials can no longer be written, once, and nil when they can be written again.
	OnDenialLog func(err error)

	hasPanicked atomic.Bool
}

// Call is a call of a store and its result.
type Call struct {
	Op store.Op
	// Requests and Decisions belong to the caller: do not change them, or keep them after the function returns.
	// After an error there are no Decisions.
	Requests  []store.Request
	Decisions []store.Decision
	Err       error
	Took      time.Duration
}

// Outcome is the result of the call in one word, as a label for metrics: "allowed" or "denied", and for an error
// "invalid", "unavailable", "outcome-unknown", "gave-up", "gave-up-unknown", "refused", "foreign" or "error".
func (c *Call) Outcome() string {
	if c.Err == nil {
		if store.AllAllowed(c.Decisions) {
			return "allowed"
		}
		return "denied"
	}
	if errors.Is(c.Err, store.ErrGaveUp) && errors.Is(c.Err, store.ErrOutcomeUnknown) {
		return "gave-up-unknown"
	}
	for _, kind := range []struct {
		err  error
		word string
	}{
		{store.ErrGaveUp, "gave-up"}, {store.ErrOutcomeUnknown, "outcome-unknown"},
		{store.ErrUnavailable, "unavailable"},
		{store.ErrForeign, "foreign"}, {store.ErrRefused, "refused"}, {store.ErrInvalid, "invalid"},
		{store.ErrUnknownToken, "invalid"}, // the caller's mistake, too
	} {
		if errors.Is(c.Err, kind.err) {
			return kind.word
		}
	}
	return "error"
}

// observerStore gives each call to an observer.
type observerStore struct {
	store.Store
	observer *Observer
	onCall   func(context.Context, Call)
	start    time.Time // the base of a monotonic clock, which costs half of time.Now
}

// Decide implements [store.Store].
func (s *observerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) (
	err error) {
	begun := time.Since(s.start)
	err = s.Store.Decide(ctx, op, reqs, decisions)
	call := Call{Op: op, Requests: reqs, Decisions: decisions, Err: err, Took: time.Since(s.start) - begun}
	if err != nil {
		call.Decisions = nil
	}
	defer s.observer.caught() // err stays the answer
	s.onCall(ctx, call)
	return err
}

// notify calls a function of the observer with value, unless it is nil.
func notify[T any](o *Observer, f func(T), value T) {
	if f != nil {
		defer o.caught()
		f(value)
	}
}

// caught is deferred, and logs the first panic, which is a bug of the observer.
func (o *Observer) caught() {
	value := recover()
	if value == nil || !o.hasPanicked.CompareAndSwap(false, true) {
		return
	}
	err := &panics.Error{Value: value, Stack: debug.Stack()}
	panics.Call(func() error {
		slog.Error("limiter: an observer panicked; this is logged once", "panic", err.Error(),
			"stack", string(err.Stack))
		return nil
	})
}

// Breakers returns the state of the outermost breaker of each shard around a store; nil if there is none.
func Breakers(around store.Store) map[string]store.BreakerState {
	s, has := store.As[*breakerStore](around)
	if !has {
		return nil
	}
	states := map[string]store.BreakerState{}
	for shard, c := range *s.shards.Load() {
		states[shard] = c.now()
	}
	if whole := s.whole.now(); len(states) == 0 || whole != store.BreakerClosed {
		states[""] = whole // otherwise it is from the time before any shard was known
	}
	return states
}
