package layers_test

import (
	"context"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// All layers around a store, in their order. A real service uses package redisstore, whose WithBudget bounds the
// time of a call.
func Example_wrappers() {
	seen := layers.Observer{ // count here; it must be quick
		OnCall:    func(_ context.Context, call layers.Call) { fmt.Println(call.Op, call.Outcome()) },
		OnFailure: func(err error) { fmt.Println("decided without the store:", err) },
		OnBreaker: func(change layers.BreakerChange) { fmt.Println("breaker", change.To, change.Reason) },
	}
	var backend store.Store = memorystore.New()
	backend = layers.WithBreaker(backend, seen.Breaker(layers.Breaker{}))
	backend = layers.WithLeases(backend, layers.Leases{})
	backend = layers.WithFailure(backend, layers.Failure{Policy: store.LocalOnError, OnFailure: seen.Failure()})
	backend = layers.DenialMemory{}.Wrap(backend)
	backend = layers.WithOverrides(backend, layers.Overrides{})
	backend = layers.WithDenialLog(backend, layers.DenialLog{})
	backend = layers.WithObserver(backend, seen)
	defer backend.Close() // gives leased units back, and writes the last denials

	limits := storecall.New(backend)
	for range 3 {
		d, err := limits.Take(context.Background(), store.Key{Subject: "user:42"}, store.Limit{Count: 1, Period: time.Hour}, 1)
		fmt.Println("allowed", d.Allowed, "by", d.DecidedBy, err)
	}
	// Output:
	// take allowed
	// allowed true by store <nil>
	// take denied
	// allowed false by store <nil>
	// take denied
	// allowed false by denial-memory <nil>
}
