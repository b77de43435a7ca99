package limiter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// A store that is closed is no outage: nothing decides in its place, and no breaker opens.
func TestAClosedStoreIsNotAway(t *testing.T) {
	inner := memorystore.New()
	store := limiter.WithBreaker(inner, limiter.Breaker{Failures: 1, Slow: time.Hour, OnChange: func(change limiter.BreakerChange) {
		t.Errorf("the breaker was told of an outage: %+v", change)
	}})
	store = limiter.WithFailure(store, limiter.Failure{Policy: limiter.AllowOnError})
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	limits, key := limiter.New(store), limiter.Key{Subject: "u"}
	for range 3 {
		d, err := limits.Take(context.Background(), key, limiter.Limit{Count: 1, Period: time.Hour}, 1)
		if !errors.Is(err, limiter.ErrClosed) || limiter.IsAway(err) || d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	}
	leased := limiter.WithLeases(store, limiter.Leases{})
	defer leased.Close()
	if d, err := limiter.New(leased).Take(context.Background(), key, limiter.Limit{Count: 1000, Period: time.Hour}, 1); d.Allowed ||
		!errors.Is(err, limiter.ErrClosed) {
		t.Errorf("leased: %+v, %v", d, err)
	}
}
