package redisstore_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A caller that waits for the client's only connection leaves when the store's time is over,
// even if that connection comes free later, and would then be silent for as long again.
func TestWaitingForAConnectionIsWithinTheBudget(t *testing.T) {
	server := redistest.Start(t)
	const budget = 200 * time.Millisecond
	const callers = 4 // more would share what they send
	var dialed atomic.Int64
	client := redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, ReadTimeout: budget, WriteTimeout: budget, MaxRetries: -1,
		DisableIdentity: true, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialed.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}})
	defer client.Close()
	backend, err := redisstore.Own(client)
	if err != nil {
		t.Fatal(err)
	}
	l := store.New(backend)
	server.Pause()
	defer server.Resume()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, err := l.Take(ctx, user, hundred, 1); err == nil {
				t.Error("a server that hangs has answered")
			}
		})
	}
	all.Wait()
	// Who gets the connection when it comes free makes another, since that one is spoilt.
	if n := dialed.Load(); n == callers {
		t.Errorf("%d callers have had a connection, one after the other", n)
	}
}
