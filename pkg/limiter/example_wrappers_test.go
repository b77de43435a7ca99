package limiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// All wrappers around a store, in their order. In a service the store is one of package
// redisstore, whose WithBudget says how long a call may take.
func Example_wrappers() {
	seen := limiter.Observer{ // count here; it must be quick
		OnCall:    func(_ context.Context, call limiter.Call) { fmt.Println(call.Op, call.Outcome()) },
		OnFailure: func(err error) { fmt.Println("decided without the store:", err) },
		OnBreaker: func(change limiter.BreakerChange) { fmt.Println("breaker", change.To, change.Reason) },
	}
	var store limiter.Store = memorystore.New()
	store = limiter.WithBreaker(store, seen.Breaker(limiter.Breaker{}))
	store = limiter.WithLeases(store, limiter.Leases{})
	store = limiter.WithFailure(store, limiter.Failure{Policy: limiter.LocalOnError, OnFailure: seen.Failure()})
	store = limiter.WithDenialMemory(store, 0)
	store = limiter.WithOverrides(store, limiter.Overrides{})
	store = limiter.WithDenialLog(store, limiter.DenialLog{})
	store = limiter.WithObserver(store, seen)
	defer store.Close() // gives leased units back, and writes the last denials

	limits := limiter.New(store)
	for range 3 {
		d, err := limits.Take(context.Background(), limiter.Key{Subject: "user:42"}, limiter.Limit{Count: 1, Period: time.Hour}, 1)
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
