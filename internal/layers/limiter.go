package layers

import (
	"context"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Limiter decides one limit of one subject at a time, or several together. It is a thin layer over a [store.Store]
// and safe for concurrent use.
type Limiter struct {
	store  store.Store
	calls  sync.Pool // of *call
	waiter Waiter
}

// call is the memory for a call of one request, pooled so that a decision allocates nothing here.
type call struct {
	req      [1]store.Request
	decision [1]store.Decision
}

// New returns a Limiter that decides with backend. The caller closes backend.
func New(backend store.Store) *Limiter {
	return &Limiter{store: backend, calls: sync.Pool{New: func() any { return new(call) }}, waiter: Waiter{Store: backend}}
}

// Take charges cost units to key under limit, if they fit. A denial is a
// Decision, not an error.
func (l *Limiter) Take(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return l.decide(ctx, store.Take, key, limit, cost)
}

// Peek returns the answer of a Take, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return l.decide(ctx, store.Peek, key, limit, cost)
}

// Refund gives cost units of an earlier Take back.
func (l *Limiter) Refund(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return l.decide(ctx, store.Refund, key, limit, cost)
}

// Charge charges cost units to key under limit, even if they do not fit: for costs that are known only afterwards,
// such as bytes sent. The usage can exceed the capacity then. See [store.Charge].
func (l *Limiter) Charge(ctx context.Context, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	return l.decide(ctx, store.Charge, key, limit, cost)
}

// Settle replaces the cost of what was taken of key under limit with that token by the real cost: it charges what
// is missing, even if it does not fit, or gives back what is too much; 0 gives everything back. It takes effect
// once. The error is a [store.ErrUnknownToken] if no take with the token is remembered, and a [store.ErrInvalid] if
// it was settled with another cost before.
//
// A take with a token can always be settled, whoever decided it. After a decision by a failure policy or a local
// share, the store may have charged the call, if its answer was lost; its record of the token says so. If the store
// charged nothing the error is a [store.ErrUnknownToken]. While the store is away, no failure policy answers a
// Settle.
func (l *Limiter) Settle(ctx context.Context, key store.Key, limit store.Limit, token string, cost int64) (store.Decision, error) {
	decisions := make([]store.Decision, 1)
	err := l.store.Decide(ctx, store.Settle, []store.Request{{Key: key, Limit: limit, Cost: cost, Token: token}}, decisions)
	return decisions[0], err
}

// TakeAll charges all reqs or none, decided at one instant, and returns a Decision for each in their order. It took
// effect if [store.AllAllowed] is true.
func (l *Limiter) TakeAll(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	if err := l.store.Decide(ctx, store.Take, reqs, decisions); err != nil {
		return nil, err
	}
	return decisions, nil
}

func (l *Limiter) decide(ctx context.Context, op store.Op, key store.Key, limit store.Limit, cost int64) (store.Decision, error) {
	c := l.calls.Get().(*call)
	req := &c.req[0] // not a shadow limit
	req.Key, req.Limit, req.Cost = key, limit, cost
	c.decision[0] = store.Decision{}
	err := l.store.Decide(ctx, op, c.req[:], c.decision[:])
	decision := c.decision[0]
	req.Key = store.Key{} // do not keep the caller's strings alive
	l.calls.Put(c)
	return decision, err
}
