package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// askedStore tells of the context that it is asked with.
type askedStore struct {
	store.Store
	asked func(ctx context.Context)
}

func (s askedStore) Decide(ctx context.Context, _ store.Op, _ []store.Request, _ []store.Decision) error {
	s.asked(ctx)
	return nil
}

// What a store is asked with is a context like others, for whoever does not know that its timer
// is only made when it is needed.
func TestABudgetsContextIsLikeOthers(t *testing.T) {
	type key struct{}
	caller := context.WithValue(context.Background(), key{}, "the caller's")
	ask := func(budget time.Duration, asked func(ctx context.Context)) {
		store.WithBudget(askedStore{asked: asked}, budget).Decide(caller, store.Take, nil, nil)
	}
	var before, after context.Context
	ask(time.Hour, func(ctx context.Context) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		end, limited := ctx.Deadline()
		if ctx.Err() != nil || child.Err() != nil || ctx.Value(key{}) != "the caller's" || !limited ||
			time.Until(end) < time.Minute {
			t.Errorf("%v, %v, %v, %v, %t", ctx.Err(), child.Err(), ctx.Value(key{}), end, limited)
		}
		if own, storesEnd, limited := store.BudgetOf(ctx); own != caller || !storesEnd.Equal(end) || !limited {
			t.Errorf("%v, %v, %t", own, storesEnd, limited)
		}
		before = ctx
	})
	ask(time.Hour, func(ctx context.Context) { after = ctx })
	for _, ctx := range []context.Context{before, after} { // asked before and after the call's end
		if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(store.GaveUp(ctx), store.ErrGaveUp) {
			t.Errorf("after the call: %v", ctx.Err())
		}
	}
	ask(time.Nanosecond, func(ctx context.Context) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if <-child.Done(); !errors.Is(child.Err(), context.DeadlineExceeded) || store.GaveUp(child) != nil {
			t.Errorf("at the end of the budget: %v, %v", child.Err(), store.GaveUp(child))
		}
	})
	if own, _, limited := store.BudgetOf(caller); own != caller || limited {
		t.Errorf("of a context without a budget: %v, %t", own, limited)
	}
	if n := tier.Allocations(100, func() { ask(time.Hour, func(context.Context) {}) }); n > 4 {
		t.Errorf("%v allocations where nobody waits", n)
	}
}
