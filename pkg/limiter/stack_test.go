package limiter_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// The order is the one that Stack documents, from the outside.
func TestStackHasOneOrder(t *testing.T) {
	var order []string
	var layers limiter.Layers
	fields := reflect.ValueOf(&layers).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		fields.Field(i).Set(reflect.ValueOf(func(store limiter.Store) limiter.Store {
			order = slices.Insert(order, 0, name)
			return &plainWrapper{store}
		}))
	}
	store := limiter.Stack(memorystore.New(), layers)
	want := []string{"Observer", "Around", "DenialLog", "Overrides", "DenialMemory", "Failure", "Leases", "Breaker", "StoreObserver", "Budget"}
	if !slices.Equal(order, want) {
		t.Errorf("from the outside: %v, want %v", order, want)
	}
	if _, has := limiter.OverrideTableOf(store); !has {
		t.Error("the overrides of the store are hidden behind a wrapper that embeds it")
	}
}

// plainWrapper is a wrapper by plain embedding, which hides what else a store has.
type plainWrapper struct{ limiter.Store }

// undecided is a store whose overrides can be read, and that decides nothing.
type undecided struct{ *memorystore.Store }

// Decide implements limiter.Store.
func (undecided) Decide(context.Context, limiter.Op, []limiter.Request, []limiter.Decision) error {
	return limiter.ErrUnavailable
}

// What an operator has set applies to what a local share decides while the store is away.
func TestOverridesApplyWhileTheStoreIsAway(t *testing.T) {
	ctx, limit := context.Background(), limiter.Limit{Algorithm: limiter.TokenBucket, Count: 10, Period: time.Hour}
	for what, test := range map[string]struct {
		override limiter.Override
		allowed  int
	}{
		"half":    {limiter.Override{Effect: limiter.OverrideTimes, Thousandths: 500}, 5},
		"double":  {limiter.Override{Effect: limiter.OverrideTimes, Thousandths: 2000}, 20},
		"blocked": {limiter.Override{Effect: limiter.OverrideBlock}, 0},
		"exempt":  {limiter.Override{Effect: limiter.OverrideExempt}, 30},
	} {
		inner := memorystore.New()
		if _, err := inner.SetOverride(ctx, test.override, time.Hour); err != nil {
			t.Fatal(err)
		}
		watch := limiter.WatchOverrides(inner, limiter.Overrides{})
		if err := watch.Load(ctx); err != nil {
			t.Fatal(err)
		}
		store := limiter.Stack(undecided{inner}, limiter.Layers{Overrides: watch.Wrap, Failure: func(store limiter.Store) limiter.Store {
			return limiter.WithFailure(store, limiter.Failure{Policy: limiter.LocalOnError, Share: limiter.WholeShare})
		}})
		allowed := 0
		for range 30 {
			d, err := limiter.New(store).Take(ctx, limiter.Key{Subject: "user:1"}, limit, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				allowed++
			}
		}
		if allowed != test.allowed {
			t.Errorf("%s: %d of 30 allowed, want %d", what, allowed, test.allowed)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
