package redisstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Each call is told of once, however many go together, and a panic of who is told changes
// nothing.
func TestTheBatchObserverIsToldOfEachCallOnce(t *testing.T) {
	server := redistest.Start(t)
	var calls, batches, largest atomic.Int64
	backend, err := redisstore.Own(redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1}), redisstore.WithBudget(time.Minute),
		redisstore.WithBatchObserver(func(n int) {
			calls.Add(int64(n))
			batches.Add(1)
			for most := largest.Load(); int64(n) > most && !largest.CompareAndSwap(most, int64(n)); most = largest.Load() {
			}
			panic("of the observer")
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	limit := store.Limit{Count: 1000, Period: time.Minute}
	take := func() {
		reqs := []store.Request{{Key: store.Key{Subject: "a"}, Limit: limit, Cost: 1}}
		if err := backend.Decide(context.Background(), store.Take, reqs, make([]store.Decision, 1)); err != nil {
			t.Error(err)
		}
	}
	take() // also brings the script there
	if calls.Load() != 1 && calls.Load() != 2 {
		t.Fatalf("told of %d calls after one", calls.Load())
	}
	calls.Store(0)
	const many, rounds = 200, 50
	sent := int64(0)
	for round := 0; round < rounds && largest.Load() < 2; round++ {
		server.Pause() // so that callers find others waiting
		var asking sync.WaitGroup
		for range many {
			asking.Go(take)
		}
		server.Resume()
		asking.Wait()
		sent += many
	}
	if calls.Load() != sent || largest.Load() < 2 {
		t.Errorf("told of %d calls, of %d together at most; want %d calls, some together", calls.Load(), largest.Load(), sent)
	}
}
