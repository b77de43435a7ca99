// Package layers has the layers around a store, for the options of limiter.New. [Stack] has their one order. [Waiter]
// is a caller of such a stack.
package layers

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Layers are the layers to put around a store, from the outside in. A layer whose field is zero is left out.
type Layers struct {
	Env
	// Around is a wrapper of the application. Like OnCall of the [Observer], it sees what the caller sees.
	Around func(store.Store) store.Store
	// DenialLog counts all denials of the layers below, including blocks.
	DenialLog *DenialCollector
	// Overrides apply to what a failure policy decides while the store is away, and to what a denial memory remembers.
	Overrides *OverrideWatch
	// DenialMemory repeats denials without a round trip.
	DenialMemory *store.DenialMemory
	// Failure decides when the layers below or the store fail.
	Failure Failure
	// Leases take units of busy keys in advance.
	Leases *store.Leases
	// Breaker judges the store by what it does within its budget.
	Breaker *store.Breaker
	// Budget is the most time of a call of the store; see [store.WithBudget].
	Budget time.Duration
}

// Env is what layers need of the world around them. The zero Env is that of the process.
type Env struct {
	// Observer sees what layers do; nil for none.
	Observer *Observer
	// Clock is the local clock; the default is the process's own. Only its differences matter.
	Clock func() time.Time
	// Background runs a function after a delay, by default with timers of the process. It is for virtual time: it may
	// run a function without a delay before it returns.
	Background func(delay time.Duration, f func())
}

// Stack puts layers around backend, as with [store.Wrap]. Layers get requests with their defaults set.
func Stack(backend store.Store, with Layers) store.Store {
	bare := backend
	with.Observer = cmp.Or(with.Observer, new(Observer))
	add := func(wrapper store.Store) {
		if wrapper != backend {
			backend = store.Wrap(wrapper, backend)
		}
	}
	if with.Budget > 0 {
		add(store.WithBudget(backend, with.Budget))
	}
	if o := with.Observer; o.OnStoreCall != nil {
		add(&observerStore{Store: backend, observer: o, onCall: o.OnStoreCall, start: time.Now()})
	}
	if with.Breaker != nil {
		add(newBreaker(backend, *with.Breaker, with.Env))
	}
	if with.Leases != nil {
		add(newLeases(backend, *with.Leases, with.Env))
	}
	if with.Failure.Policy != store.FailOnError {
		add(newFailurePolicy(backend, with.Failure, with.Env))
	}
	if with.DenialMemory != nil {
		add(newDenialMemory(backend, *with.DenialMemory, with.Env))
	}
	if with.Overrides != nil {
		add(with.Overrides.wrap(backend))
	}
	if with.DenialLog != nil {
		add(with.DenialLog.wrap(backend))
	}
	if with.Around != nil {
		add(with.Around(backend))
	}
	if o := with.Observer; o.OnCall != nil {
		add(&observerStore{Store: backend, observer: o, onCall: o.OnCall, start: time.Now()})
	}
	if backend != bare {
		add(&entrance{backend})
	}
	return backend
}

// entrance sets the defaults of requests, so that the layers inside need not.
type entrance struct{ store.Store }

// Decide implements [store.Store].
func (s *entrance) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	for i := range reqs {
		if !reqs[i].HasDefaults() {
			reqs = slices.Clone(reqs)
			for j := range reqs {
				reqs[j].SetDefaults()
			}
			break
		}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// after runs f after a delay. f itself reports a panic to its callers.
func (e *Env) after(delay time.Duration, f func()) {
	if e.Background != nil {
		e.Background(delay, f)
		return
	}
	time.AfterFunc(delay, func() {
		var err error
		defer panics.Catch(&err)
		f()
	})
}

// wallTime returns the time of the local clock.
func (e *Env) wallTime() time.Time {
	if e.Clock != nil {
		return e.Clock()
	}
	return time.Now()
}

// Shared is a store whose limiters share what they read of it and write to it in the background.
type Shared struct {
	store.Store
	Watch   *OverrideWatch
	Denials *DenialCollector
}

// Unwrap returns the store inside.
func (s *Shared) Unwrap() store.Store { return s.Store }
