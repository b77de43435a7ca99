package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WithBudget wraps store so that each of its calls takes at most budget. When that is
// over, the store is away ([IsAway]), which is something else than a caller whose own
// context has ended ([ErrGaveUp]): a failure policy decides in its place.
func WithBudget(store Store, budget time.Duration) Store {
	return KeepKeyspace(&budgetStore{Store: store, budget: budget}, store)
}

type budgetStore struct {
	Store
	budget time.Duration
}

// Decide implements [Store].
func (s *budgetStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	ctx, cancel := BudgetContext(ctx, s.budget)
	defer cancel()
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// BudgetContext returns a context for calls of a store that may take at most budget
// together, such as those of a [Keyspace]. Its end means that the store is away, unless
// ctx itself has ended.
func BudgetContext(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, errBudget)
}

// errBudget is the cause of contexts that end because a store's time is over.
var errBudget = errors.New("the store's time was over")

// GaveUp is for stores. It returns an [ErrGaveUp] with what ended ctx, and nil if ctx has
// not ended, or only because the budget of [WithBudget] is over: the store is away then.
func GaveUp(ctx context.Context) error {
	if deadline, limited := ctx.Deadline(); limited && ctx.Done() != nil && !time.Now().Before(deadline) {
		<-ctx.Done() // a connection can notice the deadline a moment before
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errBudget) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
}
