package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// silentStore never answers, as a store does that keeps a caller's deadline.
type silentStore struct{ store.Store }

func (silentStore) Decide(ctx context.Context, _ store.Op, _ []store.Request, _ []store.Decision) error {
	<-ctx.Done()
	if err := store.GaveUp(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: silence", store.ErrUnavailable)
}

// A store's time and a caller's time are two things: the end of the first is an outage,
// for which there is a policy, and the end of the second is the caller's own affair.
func TestAStoresBudgetIsNotTheCallersTime(t *testing.T) {
	const short, long = time.Millisecond, time.Hour
	ended, end := context.WithCancel(context.Background())
	end()
	for _, test := range []struct {
		name           string
		ctx            context.Context
		caller, budget time.Duration
		gaveUp         error // nil where the store is away
	}{
		{"the store's time is over", context.Background(), long, short, nil},
		{"the caller's time is over", context.Background(), short, long, context.DeadlineExceeded},
		{"the caller has left", ended, long, long, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(test.ctx, test.caller)
			defer cancel()
			backend := layers.Stack(
				silentStore{}, layers.Layers{Budget: test.budget, Failure: layers.Failure{Policy: store.AllowOnError}})
			d, err := storecall.New(backend).Take(
				ctx, store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
			if test.gaveUp == nil && (err != nil || !d.Unguarded) {
				t.Errorf("%+v, %v; want the policy's answer", d, err)
			}
			if test.gaveUp != nil && (!errors.Is(err, store.ErrGaveUp) || !errors.Is(err, test.gaveUp) ||
				store.IsAway(err)) {
				t.Errorf("%v; want an ErrGaveUp that is %v", err, test.gaveUp)
			}
		})
	}
}

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
