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
	"github.com/limitctl/limitctl/internal/storecall"
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
	backend := newStore(t, client)
	l := storecall.New(backend)
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

// badContext is a context of somebody's own that panics.
type badContext struct{ context.Context }

func (badContext) Deadline() (time.Time, bool) { panic("no deadline") }

// A context that panics fails its own call, and holds up nobody else.
func TestAPanickingContextHoldsUpNobody(t *testing.T) {
	backend := newStore(t, redistest.Start(t).Client())
	req := store.Request{Key: store.Key{Subject: "a", Name: "n"}, Limit: store.Limit{Count: 10, Period: time.Minute}, Cost: 1}
	refund := req
	refund.Token = "t" // which goes by itself
	for _, bad := range []context.Context{nil, badContext{t.Context()}} {
		for _, r := range []store.Request{req, refund} {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_ = backend.Decide(bad, store.Take, []store.Request{r}, make([]store.Decision, 1))
			}()
			decideOne(t, backend, store.Take, req)
			decideOne(t, backend, store.Refund, req)
		}
	}
}
