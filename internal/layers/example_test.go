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

// exampleStore stands for the store of a service. It is in memory with a clock that stands still, so that the
// examples always print the same.
func exampleStore() store.Store {
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	return memorystore.New(memorystore.WithClock(func() time.Time { return noon }))
}

// A store that is away.
type awayStore struct{ store.Store }

func (awayStore) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return fmt.Errorf("%w: no answer in time", store.ErrUnavailable)
}

// While the store is away all requests are allowed, and an alarm is raised.
func ExampleFailure() {
	backend := layers.WithFailure(awayStore{}, layers.Failure{Policy: store.AllowOnError,
		OnFailure: func(err error) { fmt.Println("alarm:", err) }})
	d, err := storecall.New(backend).Take(context.Background(), store.Key{Subject: "user:42"},
		store.Limit{Count: 10, Period: time.Minute}, 1)
	fmt.Println("allowed", d.Allowed, "unguarded", d.Unguarded, err)
	// Output:
	// alarm: store unavailable: no answer in time
	// allowed true unguarded true <nil>
}

// While the store is away, this process decides with a fifth of each limit.
func ExampleWithFailure() {
	backend := layers.WithFailure(awayStore{}, layers.Failure{Policy: store.LocalOnError, Share: store.WholeShare / 5})
	limits := storecall.New(backend)
	for range 3 {
		d, err := limits.Take(context.Background(), store.Key{Subject: "user:42"}, store.Limit{Count: 10, Period: time.Minute}, 1)
		fmt.Println("allowed", d.Allowed, "by", d.DecidedBy, err)
	}
	// Output:
	// allowed true by local <nil>
	// allowed true by local <nil>
	// allowed false by local <nil>
}
