package experiment

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Wrap says what is put around the store of a simulation, as a service would do, and how many processes of that
// service there are. The zero Wrap is the limit as it is.
type Wrap struct {
	// Replicas is how many instances there are of all wrappers, 0 for one. Requests go to them in turn.
	Replicas int
	Denials  *store.DenialMemory
	Leases   *store.Leases
	// Words are the wrappers as they were asked for, such as "lease=50".
	Words []string
}

// IsZero reports whether there is nothing around the store.
func (w *Wrap) IsZero() bool { return w.Denials == nil && w.Leases == nil }

// around returns the replicas of the wrappers around an empty store in memory, all by one clock.
func (w *Wrap) around(clock *loadgen.Clock) *replicas {
	with := layers.Layers{Leases: w.Leases, DenialMemory: w.Denials, Env: layers.Env{Clock: clock.Now, Background: clock.Background}}
	r := &replicas{store: &countedStore{Store: memorystore.New(memorystore.WithClock(clock.Now))}}
	for range max(1, w.Replicas) {
		r.stacks = append(r.stacks, layers.Stack(r.store, with))
	}
	return r
}

// report describes what came of the wrappers.
func (w *Wrap) report(r *replicas, result *loadgen.Simulation) *report.Wrapped {
	calls := r.store.calls.Load()
	return &report.Wrapped{
		Replicas: len(r.stacks), Wrap: w.Words, StoreCalls: calls,
		CallsPerDecision: float64(calls) / float64(max(1, result.Tally.Requests())),
		AllowedBesides:   result.Differently.Allowed, DeniedBesides: result.Differently.Denied,
	}
}

// wrapWarning says what the figures of a run with wrappers mean.
func wrapWarning(limits []namedLimit) string {
	if len(limits) > 1 {
		return "denial memory and leases are for calls of one limit; these are of several, and all of them went to the store"
	}
	return "the units over- and under-admitted are what the wrappers cost in accuracy; thresholds judge them, and the audit does not"
}

// replicas are instances of wrappers around one store. Requests go to them in turn.
type replicas struct {
	store  *countedStore
	stacks []store.Store
	next   int
}

// Decide implements [store.Store].
func (r *replicas) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	r.next = (r.next + 1) % len(r.stacks)
	return r.stacks[r.next].Decide(ctx, op, reqs, decisions)
}

// Close ends the wrappers, which give back what they hold.
func (r *replicas) Close() (err error) {
	for _, stack := range r.stacks {
		err = errors.Join(err, stack.Close())
	}
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
