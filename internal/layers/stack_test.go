package layers_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// plainStore embeds a store, and so hides its other interfaces.
type plainStore struct{ store.Store }

// The order is the documented one, from the outside in, and hides no table of the store.
func TestStackHasOneOrder(t *testing.T) {
	var order []string
	var with layers.Layers
	fields := reflect.ValueOf(&with).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		fields.Field(i).Set(reflect.ValueOf(func(backend store.Store) store.Store {
			order = slices.Insert(order, 0, name)
			return &plainStore{backend}
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
	table := &denyingStore{}
	wrapped := store.WithBudget(layers.WithBreaker(layers.WithDenialLog(table, layers.DenialLog{}), layers.Breaker{}), time.Second)
	if found, has := admin.DenialTableOf(wrapped); !has || found != admin.DenialTable(table) {
		t.Errorf("found %v, %v", found, has)
	}
	if backend := layers.WithDenialLog(plainStore{}, layers.DenialLog{}); backend != store.Store(plainStore{}) {
		t.Error("a store without a table is wrapped")
	}
}

// Overrides apply to the decisions of a local share while the store is away.
func TestOverridesApplyWhileTheStoreIsAway(t *testing.T) {
	for _, test := range []struct {
		override store.Override
		allowed  int
	}{
		{store.Override{Effect: store.OverrideTimes, Thousandths: 2000}, 20},
		{store.Override{Effect: store.OverrideBlock}, 0},
		{store.Override{Effect: store.OverrideExempt}, 30},
	} {
		table := &watchedTable{Store: memorystore.New()}
		if _, err := table.SetOverride(t.Context(), test.override, time.Hour); err != nil {
			t.Fatal(err)
		}
		watch := layers.WatchOverrides(table, layers.Overrides{})
		if err := watch.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		table.err = store.ErrUnavailable
		backend := layers.Stack(table, layers.Layers{Overrides: watch.Wrap, Failure: func(backend store.Store) store.Store {
			return layers.WithFailure(backend, layers.Failure{Policy: store.LocalOnError, Share: store.WholeShare})
		}})
		allowed := 0
		for range 30 {
			if decide(t, backend, store.Take, asking("user:1", "10/1h", 1))[0].Allowed {
				allowed++
			}
		}
		if allowed != test.allowed {
			t.Errorf("%s: %d of 30 allowed, want %d", test.override.Effect, allowed, test.allowed)
		}
		watch.Close()
	}
}
