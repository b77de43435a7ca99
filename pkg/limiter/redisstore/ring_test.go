package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A Ring has each key on one of its servers, however many callers there are at once.
func TestARingUnderManyCallers(t *testing.T) {
	a, b, c := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr, "b": b.Addr, "c": c.Addr}})
	defer ring.Close()
	backend := newStore(t, ring)
	l := storecall.New(backend)
	const subjects, each = 30, 20
	var calls sync.WaitGroup
	for range each {
		for i := range subjects {
			calls.Go(func() {
				key := store.Key{Subject: fmt.Sprint("user:", i)}
				if d, err := l.Take(ctx, key, hundred, 1); err != nil || !d.Allowed {
					t.Errorf("%v: %+v, %v", key, d, err)
				}
			})
		}
	}
	calls.Wait()
	var together []store.Request // and so do several subjects of one call
	for i := range subjects {
		together = append(together, store.Request{Key: store.Key{Subject: fmt.Sprint("user:", i)}, Limit: hundred, Cost: 1})
	}
	for _, token := range []string{"", "a token"} {
		for i := range together {
			together[i].Token = token
		}
		if decisions, err := l.TakeAll(ctx, together...); err != nil || !store.AllAllowed(decisions) {
			t.Fatalf("%+v, %v", decisions, err)
		}
	}
	for i := range subjects {
		d, err := l.Peek(ctx, store.Key{Subject: fmt.Sprint("user:", i)}, hundred, 1)
		if err != nil || d.Used != each+2 {
			t.Errorf("user:%d has %d used after %d takes, %v", i, d.Used, each+2, err)
		}
	}
}

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
