package redisstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// A caller that waits for the client's only connection leaves when the store's time is over,
// even if that connection comes free later, and would then be silent for as long again.
func TestWaitingForAConnectionIsWithinTheBudget(t *testing.T) {
	server := redistest.Start(t)
	const budget = 500 * time.Millisecond
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, ReadTimeout: budget, WriteTimeout: budget, MaxRetries: -1,
		DisableIdentity: true})
	defer client.Close()
	store, err := redisstore.New(client)
	if err != nil {
		t.Fatal(err)
	}
	l := limiter.New(store)
	if _, err := l.Take(ctx, user, hundred, 1); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	began := time.Now()
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			if _, err := l.Take(ctx, user, hundred, 1); err == nil {
				t.Error("a server that hangs has answered")
			}
		})
	}
	callers.Wait()
	if took := time.Since(began); took > 12*budget { // one after the other it is 16 times
		t.Errorf("the last one left after %v, with a budget of %v", took, budget)
	}
}
