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
	// OnPanic gets the first panic of the functions above, which is a bug in them. The default is to log it.
	OnPanic func(err error)

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
// "invalid", "unavailable", "outcome-unknown", "gave-up", "gave-up-unknown" (the caller gave up, and units may be
// charged), "refused", "foreign" or "error" (another one).
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
		{store.ErrGaveUp, "gave-up"}, {store.ErrOutcomeUnknown, "outcome-unknown"}, {store.ErrUnavailable, "unavailable"},
		{store.ErrForeign, "foreign"}, {store.ErrRefused, "refused"}, {store.ErrInvalid, "invalid"},
	} {
		if errors.Is(c.Err, kind.err) {
			return kind.word
		}
	}
	return "error"
}

// observerStore gives each call to an observer. It allocates nothing.
type observerStore struct {
	store.Store
	observer *Observer
	onCall   func(context.Context, Call)
	start    time.Time // the base of a monotonic clock, which costs half of time.Now
}

// Decide implements [store.Store].
func (s *observerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) (err error) {
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

// caught is deferred, and reports the first panic.
func (o *Observer) caught() {
	value := recover()
	if value == nil || !o.hasPanicked.CompareAndSwap(false, true) {
		return
	}
	err := &panics.Error{Value: value, Stack: debug.Stack()}
	panics.Call(func() error {
		if o.OnPanic != nil {
			o.OnPanic(err)
		} else {
			slog.Error("limiter: an observer panicked; this is logged once", "panic", err.Error(), "stack", string(err.Stack))
		}
		return nil
	})
}

// Stats are the figures of the layers around a store at one moment. Those of a missing layer are zero.
type Stats struct {
	Breakers                map[string]store.BreakerState // by shard; nil without a breaker
	LeasedKeys, LeasedUnits int64                         // what leases hold in advance
	LocalKeys               int64                         // of the fallback store, if it has a method Len() int
	Denials                 int64                         // that the denial memory repeats
}

// StatsOf returns the figures of the layers around a store, the outermost of each kind. It walks over all that they
// remember, so it is for a scrape and not for each call.
func StatsOf(s store.Store) Stats {
	var stats Stats
	if breaker, has := store.As[*breakerStore](s); has {
		stats.Breakers = breaker.states()
	}
	if leases, has := store.As[*leaseStore](s); has {
		stats.LeasedKeys, stats.LeasedUnits = leases.held()
	}
	if failure, has := store.As[*failurePolicyStore](s); has {
		if fallback, counts := store.As[interface{ Len() int }](failure.Fallback); counts {
			stats.LocalKeys = int64(fallback.Len())
		}
	}
	if memory, has := store.As[*denialMemory](s); has {
		stats.Denials = memory.repeated()
	}
	return stats
}

// states returns the state of each shard.
func (s *breakerStore) states() map[string]store.BreakerState {
	states := map[string]store.BreakerState{}
	for shard, c := range *s.shards.Load() {
		states[shard] = c.now()
	}
	if whole := s.whole.now(); len(states) == 0 || whole != store.BreakerClosed {
		states[""] = whole // otherwise it is from the time before any shard was known
	}
	return states
}

// held returns the number of keys with leased units, and of these units.
func (s *leaseStore) held() (keys, units int64) {
	s.keys.each(func(k *keyed[leasedKey]) {
		if l := k.value.current.Load(); l != nil {
			if left := l.left.Load(); left > 0 {
				keys, units = keys+1, units+left
			}
		}
	})
	return keys, units
}

// repeated returns the number of valid denials.
func (s *denialMemory) repeated() (denials int64) {
	now := s.time.now()
	s.denials.each(func(k *keyed[denial]) {
		if now < k.value.until {
			denials++
		}
	})
	return denials
}

// each calls f with each key.
func (t *keyTable[T]) each(f func(*keyed[T])) {
	for i := range t.sets {
		for j := range t.sets[i].slots {
			if k := t.sets[i].slots[j].Load(); k != nil {
				f(k)
			}
		}
	}
}
