// Package storecall is for tests and benchmarks: it calls a store for one limit of one subject at a time. Services
// use package limiter.
package storecall

import (
	"context"
	"errors"
	"sync"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Caller decides one limit of one subject at a time, or several together. It is a thin layer over a [store.Store]
// and safe for concurrent use.
type Caller struct {
	// Waiter is what Wait and WaitAll wait in.
	Waiter layers.Waiter

	store store.Store
	calls sync.Pool // of *call
}

// call is the memory for a call of one request, pooled so that a decision allocates nothing here.
type call struct {
	req      [1]store.Request
	decision [1]store.Decision
}

// New returns a Caller that decides with backend, and does not close it.
func New(backend store.Store) *Caller {
	return &Caller{store: backend, calls: sync.Pool{New: func() any { return new(call) }}, Waiter: layers.Waiter{Store: backend}}
}

// Take charges cost units to key under limit, if they fit. A denial is a
// Decision, not an error.
func (c *Caller) Take(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return c.decide(ctx, store.Take, key, limit, cost)
}

// Peek returns the answer of a Take, and charges nothing.
func (c *Caller) Peek(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return c.decide(ctx, store.Peek, key, limit, cost)
}

// Refund gives cost units of an earlier Take back.
func (c *Caller) Refund(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return c.decide(ctx, store.Refund, key, limit, cost)
}

// Charge charges cost units to key under limit, even if they do not fit: for costs that are known only afterwards,
// such as bytes sent. The usage can exceed the capacity then. See [store.Charge].
func (c *Caller) Charge(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return c.decide(ctx, store.Charge, key, limit, cost)
}

// TakeAll charges all reqs or none, decided at one instant, and returns a Decision for each in their order. It took
// effect if [store.AllAllowed] is true.
func (c *Caller) TakeAll(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	if err := c.store.Decide(ctx, store.Take, reqs, decisions); err != nil {
		return nil, err
	}
	return decisions, nil
}

// Wait takes cost units of key under limit once they fit, as [layers.Waiter.Take] does. A denial is a [DeniedError].
func (c *Caller) Wait(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	decisions, err := c.WaitAll(ctx, store.Request{Key: key, Limit: limit, Cost: cost})
	if len(decisions) == 0 || err != nil && !errors.As(err, new(*DeniedError)) {
		return store.Decision{}, err
	}
	return decisions[0], err
}

// WaitAll is [Caller.Wait] for several limits that are decided together.
func (c *Caller) WaitAll(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	decisions, err := c.Waiter.Take(ctx, reqs...)
	if err == nil && !store.AllAllowed(decisions) {
		err = &DeniedError{decisions}
	}
	return decisions, err
}

// DeniedError says that [Caller.Wait] did not get its turn: nothing is charged. It is also a context.DeadlineExceeded.
type DeniedError struct{ Decisions []store.Decision }

// Error says when to try again, if the store knows.
func (e *DeniedError) Error() string {
	if after := store.Summarize(e.Decisions).RetryAfter; after > 0 {
		return "denied: the turn does not come in time; try again in " + store.FormatPeriod(after)
	}
	return "denied: the turn did not come in time"
}

// Is makes every DeniedError a context.DeadlineExceeded.
func (e *DeniedError) Is(target error) bool { return target == context.DeadlineExceeded }

func (c *Caller) decide(ctx context.Context, op store.Op, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	own := c.calls.Get().(*call)
	req := &own.req[0] // not a shadow limit
	req.Key, req.Limit, req.Cost = key, limit, cost
	req.SetDefaults()
	own.decision[0] = store.Decision{}
	err := c.store.Decide(ctx, op, own.req[:], own.decision[:])
	decision := own.decision[0]
	req.Key = store.Key{} // do not keep the caller's strings alive
	c.calls.Put(own)
	return decision, err
}
