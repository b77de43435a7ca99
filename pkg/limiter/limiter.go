package limiter

import (
	"context"
	"sync"
)

// Limiter is what a service calls: one limit of one subject at a time, or
// several together. It is a thin face of a [Store] and safe for concurrent use.
type Limiter struct {
	store  Store
	calls  sync.Pool // of *call
	waiter Waiter
}

// call is the room for one request's way through the Store interface, pooled
// so that a decision allocates nothing here.
type call struct {
	req      [1]Request
	decision [1]Decision
}

// New returns a Limiter that decides with store. Closing the store stays the
// caller's business.
func New(store Store) *Limiter {
	return &Limiter{store: store, calls: sync.Pool{New: func() any { return new(call) }}, waiter: Waiter{Store: store}}
}

// Take charges cost units to key under limit, if they fit. A denial is a
// Decision, not an error.
func (l *Limiter) Take(ctx context.Context, key Key, limit Limit, cost int64) (Decision, error) {
	return l.decide(ctx, Take, key, limit, cost)
}

// Peek answers what Take would and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key Key, limit Limit, cost int64) (Decision, error) {
	return l.decide(ctx, Peek, key, limit, cost)
}

// Refund gives cost units of an earlier Take back.
func (l *Limiter) Refund(ctx context.Context, key Key, limit Limit, cost int64) (Decision, error) {
	return l.decide(ctx, Refund, key, limit, cost)
}

// TakeAll charges all reqs or none, decided at one instant, and returns one
// Decision for each in their order. It took effect if [AllAllowed] of them.
func (l *Limiter) TakeAll(ctx context.Context, reqs ...Request) ([]Decision, error) {
	decisions := make([]Decision, len(reqs))
	if err := l.store.Decide(ctx, Take, reqs, decisions); err != nil {
		return nil, err
	}
	return decisions, nil
}

func (l *Limiter) decide(ctx context.Context, op Op, key Key, limit Limit, cost int64) (Decision, error) {
	c := l.calls.Get().(*call)
	req := &c.req[0] // never a shadow
	req.Key, req.Limit, req.Cost = key, limit, cost
	c.decision[0] = Decision{}
	err := l.store.Decide(ctx, op, c.req[:], c.decision[:])
	decision := c.decision[0]
	req.Key = Key{} // do not keep the caller's strings alive
	l.calls.Put(c)
	return decision, err
}
