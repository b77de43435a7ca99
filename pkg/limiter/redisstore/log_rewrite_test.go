package redisstore_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A log whose ring begins in its middle, and that is written anew since it grows, keeps every unit
// with its time.
func TestALogThatGrowsKeepsItsUnits(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	far := newStore(t, socketClient(t, redistest.Start(t)), redisstore.WithClock(clock))
	near := memorystore.New(memorystore.WithClock(clock))
	req := store.Request{
		Key: store.Key{Subject: "s"}, Limit: store.Limit{Algorithm: store.SlidingLog, Count: 60, Period: time.Second},
	}
	req.SetDefaults()
	for _, phase := range []struct {
		steps int
		every time.Duration
	}{{35, 100 * time.Millisecond}, {45, 5 * time.Millisecond}, {50, 70 * time.Millisecond}, {60, 9 * time.Millisecond}} {
		for i := range phase.steps {
			now = now.Add(phase.every)
			req.Cost = int64(1 + i%3/2)
			if got, want := decideOne(t, far, store.Take, req), decideOne(t, near, store.Take, req); got != want {
				t.Fatalf("step %d, every %s: %+v, not %+v", i, phase.every, got, want)
			}
		}
	}
}
