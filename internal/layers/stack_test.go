package layers_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The order is the documented one, from the outside in.
func TestStackHasOneOrder(t *testing.T) {
	var order []string
	var with layers.Layers
	fields := reflect.ValueOf(&with).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		fields.Field(i).Set(reflect.ValueOf(func(backend store.Store) store.Store {
			order = slices.Insert(order, 0, name)
			return &plainWrapper{backend}
		}))
	}
	backend := layers.Stack(memorystore.New(), with)
	want := []string{"Observer", "Around", "DenialLog", "Overrides", "DenialMemory", "Failure", "Leases", "Breaker", "StoreObserver",
		"Budget"}
	if !slices.Equal(order, want) {
		t.Errorf("from the outside: %v, want %v", order, want)
	}
	if _, has := admin.OverrideTableOf(backend); !has {
		t.Error("the overrides of the store are hidden behind a wrapper that embeds it")
	}
}

// plainWrapper embeds a store, and so hides its other interfaces.
type plainWrapper struct{ store.Store }

// undecided is a store with readable overrides that decides nothing.
type undecided struct{ *memorystore.Store }

// Decide implements store.Store.
func (undecided) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return store.ErrUnavailable
}

// Overrides apply to the decisions of a local share while the store is away.
func TestOverridesApplyWhileTheStoreIsAway(t *testing.T) {
	ctx, limit := context.Background(), store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Hour}
	for what, test := range map[string]struct {
		override store.Override
		allowed  int
	}{
		"half":    {store.Override{Effect: store.OverrideTimes, Thousandths: 500}, 5},
		"double":  {store.Override{Effect: store.OverrideTimes, Thousandths: 2000}, 20},
		"blocked": {store.Override{Effect: store.OverrideBlock}, 0},
		"exempt":  {store.Override{Effect: store.OverrideExempt}, 30},
	} {
		inner := memorystore.New()
		if _, err := inner.SetOverride(ctx, test.override, time.Hour); err != nil {
			t.Fatal(err)
		}
		watch := layers.WatchOverrides(inner, layers.Overrides{})
		if err := watch.Load(ctx); err != nil {
			t.Fatal(err)
		}
		backend := layers.Stack(undecided{inner}, layers.Layers{Overrides: watch.Wrap, Failure: func(backend store.Store) store.Store {
			return layers.WithFailure(backend, layers.Failure{Policy: store.LocalOnError, Share: store.WholeShare})
		}})
		allowed := 0
		for range 30 {
			d, err := storecall.New(backend).Take(ctx, store.Key{Subject: "user:1"}, limit, 1)
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
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	}
}
