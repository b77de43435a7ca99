// Package storecall is for tests and benchmarks: it calls a store for one limit of one subject at a time. Services
// use package limiter.
package storecall

import (
	"context"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Caller decides one limit of one subject at a time, or several together. It is a thin layer over a [store.Store]
// and safe for concurrent use.
type Caller struct {
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
	return &Caller{store: backend, calls: sync.Pool{New: func() any { return new(call) }}}
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

// TakeAll charges all reqs or none, decided at one instant, and returns a Decision for each in their order. It took
// effect if [store.AllAllowed] is true.
func (c *Caller) TakeAll(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	if err := c.store.Decide(ctx, store.Take, reqs, decisions); err != nil {
		return nil, err
	}
	return decisions, nil
}

func (c *Caller) decide(ctx context.Context, op store.Op, key store.Key, limit store.Limit, cost int64) (
	store.Decision, error) {
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
