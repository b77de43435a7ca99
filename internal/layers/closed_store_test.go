package layers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A closed store is no outage: nothing decides in its place, and no breaker opens.
func TestAClosedStoreIsNotAway(t *testing.T) {
	inner := memorystore.New()
	backend := layers.WithBreaker(inner, layers.Breaker{Failures: 1, Slow: time.Hour, OnChange: func(change layers.BreakerChange) {
		t.Errorf("the breaker was told of an outage: %+v", change)
	}})
	backend = layers.WithFailure(backend, layers.Failure{Policy: store.AllowOnError})
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	limits, key := storecall.New(backend), store.Key{Subject: "u"}
	for range 3 {
		d, err := limits.Take(context.Background(), key, store.Limit{Count: 1, Period: time.Hour}, 1)
		if !errors.Is(err, store.ErrClosed) || store.IsAway(err) || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	}
	leased := layers.WithLeases(backend, layers.Leases{})
	defer leased.Close()
	if d, err := storecall.New(leased).Take(context.Background(), key, store.Limit{Count: 1000, Period: time.Hour}, 1); d.Allowed ||
		!errors.Is(err, store.ErrClosed) {
		t.Errorf("leased: %+v, %v", d, err)
	}
}
