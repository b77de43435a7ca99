package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Wrap says what is put around the store in an experiment, as a service would do, and how many
// processes of that service there are. The zero Wrap is the store as it is.
type Wrap struct {
	// Replicas is how many instances there are of all wrappers, 0 for one. Requests go to
	// them in turn. The store, and its connections, are the same for all.
	Replicas int
	Denials  *layers.DenialMemory
	Leases   *layers.Leases
	// Words are the wrappers as they were asked for, such as "lease=50".
	Words []string
}

// IsZero reports whether the store is used as it is.
func (w *Wrap) IsZero() bool { return w.Replicas <= 1 && w.Denials == nil && w.Leases == nil }

// replicas returns how many instances there are.
func (w *Wrap) replicas() int { return max(1, w.Replicas) }

// held returns the most units of a key that all replicas hold ahead together.
func (w *Wrap) held(limit store.Limit) int64 {
	if w.Leases == nil {
		return 0
	}
	return int64(w.replicas()) * w.Leases.Held(limit)
}

// skew is by how much the instant of a decision may be before the moment that it was asked
// for: leases tell when they charged, and a denial memory when it thinks that it is.
func (w *Wrap) skew() time.Duration {
	const answersWay = time.Second
	skew := answersWay
	if w.Leases != nil {
		skew += w.Leases.Term
	}
	return skew
}

// around returns the replicas of the wrappers and of other layers around backend, with the time of
// clock if that is not nil.
func (w *Wrap) around(backend store.Store, clock *loadgen.Clock, with layers.Layers) *replicas {
	if w.Leases != nil {
		leases := *w.Leases
		if clock != nil {
			leases.Clock, leases.Background = clock.Now, clock.Background
		}
		with.Leases = func(backend store.Store) store.Store { return layers.WithLeases(backend, leases) }
	}
	if w.Denials != nil {
		denials := *w.Denials
		if clock != nil {
			denials.Clock = clock.Now
		}
		with.DenialMemory = denials.Wrap
	}
	r := &replicas{store: &countedStore{Store: backend}}
	for range w.replicas() {
		r.stacks = append(r.stacks, layers.Stack(r.store, with))
	}
	return r
}

// warnings are about calls that the wrappers pass on.
func (w *Wrap) warnings(limits []namedLimit) []string {
	if w.Denials == nil && w.Leases == nil {
		return nil
	}
	if len(limits) > 1 {
		return []string{"denial memory and leases are for calls of one limit; these are of several, and all of them went to the store"}
	}
	if limit := limits[0].limit; w.Leases != nil && w.Leases.Held(limit) == 0 {
		why := fmt.Sprintf("a %s never is", limit.Algorithm)
		if larger := (store.Limit{Algorithm: limit.Algorithm, Count: store.MaxCount, Period: limit.Period}); w.Leases.Held(larger) > 0 {
			why = fmt.Sprintf("a tenth of it has to be at least two units, and it allows %d at once", limit.Capacity())
		}
		return []string{fmt.Sprintf("%s is not leased: %s", limit, why)}
	}
	return nil
}

// report describes what came of the wrappers in a run of that many decisions. held is how many units of a key they hold.
func (w *Wrap) report(r *replicas, limits []namedLimit, decisions int64, held func(store.Limit) int64) *report.Wrapped {
	wrapped := &report.Wrapped{Replicas: w.replicas(), Wrap: w.Words, StoreCalls: r.store.calls.Load()}
	if wrapped.Wrap == nil {
		wrapped.Wrap = []string{}
	}
	if decisions > 0 {
		wrapped.CallsPerDecision = float64(wrapped.StoreCalls) / float64(decisions)
	}
	if len(limits) == 1 {
		wrapped.HeldUnits = held(limits[0].limit)
	}
	return wrapped
}

// replicas are instances of wrappers around one store. Requests go to them in turn.
type replicas struct {
	store  *countedStore
	stacks []store.Store
	next   atomic.Uint64
	once   sync.Once
}

// Decide implements [store.Store].
func (r *replicas) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	i := r.next.Add(1) % uint64(len(r.stacks))
	return r.stacks[i].Decide(ctx, op, reqs, decisions)
}

// Close ends the wrappers, which give back what they hold, and leaves the store open.
func (r *replicas) Close() (err error) {
	r.once.Do(func() {
		for _, stack := range r.stacks {
			err = errors.Join(err, stack.Close())
		}
	})
	return err
}

// countedStore counts the calls of a store, which it leaves open.
type countedStore struct {
	store.Store
	calls atomic.Int64
}

// Decide implements [store.Store].
func (s *countedStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.calls.Add(1)
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// Close implements [store.Store].
func (s *countedStore) Close() error { return nil }

// wrappedTarget is a target with wrappers around it.
type wrappedTarget struct {
	Target
	wrap     *Wrap
	replicas *replicas
}

// newWrappedTarget returns target with wrappers and other layers around it.
func newWrappedTarget(target Target, wrap *Wrap, with layers.Layers) *wrappedTarget {
	return &wrappedTarget{Target: target, wrap: wrap, replicas: wrap.around(target, nil, with)}
}

// Decide implements [store.Store].
func (t *wrappedTarget) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	return t.replicas.Decide(ctx, op, reqs, decisions)
}

// Prepare implements [Target].
func (t *wrappedTarget) Prepare(ctx context.Context, requests []store.Request, timeout time.Duration) (Clock, error) {
	clock, err := t.Target.Prepare(ctx, requests, timeout)
	clock.Skew += t.wrap.skew()
	return clock, err
}

// CleanUp implements [Target].
func (t *wrappedTarget) CleanUp(ctx context.Context, keys []store.Key) error {
	return errors.Join(t.replicas.Close(), t.Target.CleanUp(ctx, keys))
}

// Close implements [store.Store].
func (t *wrappedTarget) Close() error { return errors.Join(t.replicas.Close(), t.Target.Close()) }

// layers are what answers while the target is away.
func (t *LoadTest) layers() (with layers.Layers) {
	if t.Breaker != nil {
		with.Breaker = func(backend store.Store) store.Store { return layers.WithBreaker(backend, *t.Breaker) }
	}
	with.Failure = func(backend store.Store) store.Store { return layers.WithFailure(backend, t.Failure) }
	return with
}

// localShare is the share of each limit that is decided locally, in words; empty if none
// is.
func (t *LoadTest) localShare() string {
	switch {
	case t.Failure.Policy != store.LocalOnError:
		return ""
	case t.Failure.Share == 0:
		return store.DefaultShare.String()
	}
	return t.Failure.Share.String()
}
