package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// WithBudget wraps store so that each of its calls takes at most budget, if the store returns when its context has
// ended, as a [Store] must. When the budget is over, the store is away ([IsAway]), and a failure policy decides. If
// the caller's own context has ended, the error is an [ErrGaveUp] instead.
func WithBudget(store Store, budget time.Duration) Store {
	if store == nil {
		panic("store.WithBudget: store is nil")
	}
	return Wrap(&budgetStore{Store: store, budget: budget}, store)
}

type budgetStore struct {
	Store
	budget time.Duration
}

// Decide implements [Store].
func (s *budgetStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	own := &budgetContext{caller: ctx, end: time.Now().Add(s.budget)}
	defer own.cancel()
	return s.Store.Decide(own, op, reqs, decisions)
}

// BudgetOf is for stores that bound their calls by themselves. If ctx is the context of a call by [WithBudget],
// BudgetOf returns the caller's own context, and the instant from which the store counts as away. Otherwise limited
// is false and caller is ctx.
//
// A store that waits for these two needs no timer for each call.
func BudgetOf(ctx context.Context) (caller context.Context, end time.Time, limited bool) {
	if b, is := ctx.(*budgetContext); is {
		return b.caller, b.end, true
	}
	return ctx, time.Time{}, false
}

// budgetContext is a [BudgetContext] that starts a timer only if somebody waits for its end.
type budgetContext struct {
	caller context.Context
	end    time.Time
	once   sync.Once
	timed  context.Context // nil until somebody needs it
	stop   context.CancelFunc
}

// Deadline implements [context.Context].
func (b *budgetContext) Deadline() (time.Time, bool) {
	if own, limited := b.caller.Deadline(); limited && own.Before(b.end) {
		return own, true
	}
	return b.end, true
}

// Done implements [context.Context].
func (b *budgetContext) Done() <-chan struct{} { return b.context().Done() }

// Err implements [context.Context].
func (b *budgetContext) Err() error { return b.context().Err() }

// Value implements [context.Context]. The cause of an end is among the values.
func (b *budgetContext) Value(key any) any { return b.context().Value(key) }

// context returns the context that has a timer.
func (b *budgetContext) context() context.Context {
	b.once.Do(func() { b.timed, b.stop = context.WithDeadlineCause(b.caller, b.end, errBudget) })
	return b.timed
}

// cancel ends the context.
func (b *budgetContext) cancel() {
	b.once.Do(func() { b.timed, b.stop = ended, func() {} })
	b.stop()
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// BudgetContext returns a context for several calls of a store that may take at most budget together, such as those
// of an admin.Keyspace. Its end means that the store is away, unless ctx itself has ended.
func BudgetContext(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, errBudget)
}

// errBudget is the cause of contexts that end because a store's time is over.
var errBudget = errors.New("the store's time was over")

// GaveUp is for stores. It returns an [ErrGaveUp] with the reason if ctx has ended. It returns nil if ctx has not
// ended, or only because the budget of [WithBudget] is over: then the store is away.
func GaveUp(ctx context.Context) error {
	if deadline, limited := ctx.Deadline(); limited && ctx.Done() != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // a connection can notice the deadline a moment before
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errBudget) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
}
