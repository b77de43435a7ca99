package layers_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// withOverrides puts overrides around backend, with no settings.
func withOverrides(backend store.Store) store.Store {
	return layers.Stack(backend, layers.Layers{Overrides: layers.WatchOverrides(backend, layers.Env{})})
}

// withDenialLog counts the denials of backend in its table.
func withDenialLog(backend store.Store) store.Store { return observedDenialLog(backend, nil) }

func observedDenialLog(backend store.Store, observer *layers.Observer) store.Store {
	return layers.Stack(backend, layers.Layers{DenialLog: layers.CollectDenials(backend, observer)})
}

// withMemory remembers the denials of backend by clock.
func withMemory(backend store.Store, settings store.DenialMemory, clock func() time.Time) store.Store {
	return layers.Stack(backend, layers.Layers{DenialMemory: &settings, Env: layers.Env{Clock: clock}})
}

// plainStore embeds a store, and so hides its other interfaces.
type plainStore struct{ store.Store }

// layersOf returns the types of the layers around a store, from the outside in.
func layersOf(s store.Store) (types []string) {
	for at := reflect.ValueOf(s).Elem(); ; {
		switch at.Type().Name() {
		case "entrance":
			types = append(types, "entrance")
			at = at.FieldByName("Store").Elem().Elem()
		case "wrapped":
			types = append(types, at.FieldByName("Store").Elem().Elem().Type().Name())
			at = at.FieldByName("inner").Elem().Elem()
		default:
			return types
		}
	}
}

// All layers have the documented order.
func TestStackHasOneOrder(t *testing.T) {
	backend := memorystore.New()
	seen := func(context.Context, layers.Call) {}
	stack := layers.Stack(backend, layers.Layers{
		Env:       layers.Env{Observer: &layers.Observer{OnCall: seen, OnStoreCall: seen}},
		Around:    func(s store.Store) store.Store { return &plainStore{s} },
		DenialLog: layers.CollectDenials(backend, nil), Overrides: layers.WatchOverrides(backend, layers.Env{}),
		DenialMemory: &store.DenialMemory{Keys: 1}, Failure: layers.Failure{Policy: store.DenyOnError},
		Leases: &store.Leases{}, Breaker: &store.Breaker{}, Budget: time.Minute,
	})
	defer stack.Close()
	want := []string{"entrance", "observerStore", "plainStore", "denialLogStore", "overrideStore", "denialMemory",
		"failurePolicyStore", "leaseStore", "breakerStore", "observerStore", "budgetStore"}
	if got := layersOf(stack); !slices.Equal(got, want) {
		t.Errorf("from the outside in %q, want %q", got, want)
	}
}

// Each layer sees what those inside decide.
func TestWhatLayersSeeOfOneAnother(t *testing.T) {
	backend := denying(&denyingStore{decision: store.Decision{RetryAfter: time.Hour}})
	outer, inner := 0, 0
	stack := layers.Stack(backend, layers.Layers{
		Env: layers.Env{Observer: &layers.Observer{
			OnCall: func(_ context.Context, call layers.Call) {
				if outer++; call.Requests[0].Key.Name == "" ||
					call.Decisions[0].DecidedBy != store.DecidedByDenialMemory && outer > 1 {
					t.Errorf("the observer gets %+v", call)
				}
			},
			OnStoreCall: func(context.Context, layers.Call) { inner++ },
		}},
		Around:       func(s store.Store) store.Store { return &plainStore{s} },
		DenialMemory: &store.DenialMemory{MaxStale: time.Hour},
		Failure:      layers.Failure{Policy: store.DenyOnError},
		Breaker:      &store.Breaker{},
		Leases:       &store.Leases{},
		Budget:       time.Minute,
	})
	req := asking("u", "1/1h", 1)
	req.Key.Name = ""
	for range 3 {
		decide(t, stack, store.Take, req)
	}
	if outer != 3 || inner != 1 {
		t.Errorf("the caller's %d calls are %d of the store", outer, inner)
	}
	if found, has := admin.TablesOf(stack); !has || found != &backend.Tables {
		t.Errorf("the table is hidden: found %v, %v", found, has)
	}
	if bare := memorystore.New(); layers.Stack(bare, layers.Layers{}) != store.Store(bare) {
		t.Error("a store without layers is wrapped")
	}
	plain := &plainStore{}
	if withDenialLog(plain) != store.Store(plain) || withOverrides(plain) != store.Store(plain) {
		t.Error("a store without tables is wrapped")
	}
}
