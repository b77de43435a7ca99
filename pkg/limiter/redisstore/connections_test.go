package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
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

// panicking is a caller's hook that panics in the handshake of a connection.
type panicking struct {
	redisserver.PassHook
	left *atomic.Int32
}

func (h panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "client" && h.left.Add(-1) >= 0 {
			panic("a hook's")
		}
		return next(ctx, cmd)
	}
}

// The client holds a lock while it asks for notices of maintenance, and does not give it back if a hook panics there.
func TestAPanicInAHandshakeHoldsUpNobody(t *testing.T) {
	for name, after := range map[string]bool{"before New": false, "after New": true} {
		client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
			DialTimeout: time.Second, ReadTimeout: time.Second})
		hook := panicking{left: new(atomic.Int32)}
		hook.left.Store(1)
		if !after {
			client.AddHook(hook)
		}
		l := storecall.New(newStore(t, client))
		if after {
			client.AddHook(hook)
		}
		panicked := 0 // not always the first take: on a busy machine that ends before the handshake
		for n := range 3 {
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			done := make(chan error, 1)
			go func() {
				_, err := l.Take(soon, user, hundred, 1)
				done <- err
			}()
			select {
			case err := <-done:
				if err != nil && strings.Contains(err.Error(), "a hook's") {
					panicked++
				} else if err != nil && !errors.Is(err, store.ErrGaveUp) {
					t.Errorf("%s, take %d: %v", name, n, err)
				}
			case <-time.After(redistest.Patience):
				t.Fatalf("%s: take %d goes on after its deadline", name, n)
			}
			cancel()
		}
		if panicked > 1 {
			t.Errorf("%s: %d takes have the error of one panic", name, panicked)
		}
	}
}
