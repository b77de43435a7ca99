package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// panicking is a caller's hook that panics in the handshake of a connection.
type panicking struct{ left *atomic.Int32 }

func (panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "client" && h.left.Add(-1) >= 0 {
			panic("a hook's")
		}
		return next(ctx, cmd)
	}
}

func (panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The client holds a lock while it asks for notices of maintenance, and does not give it back if a hook panics there.
func TestAPanicInAHandshakeHoldsUpNobody(t *testing.T) {
	for name, after := range map[string]bool{"before New": false, "after New": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
				DialTimeout: time.Second,
				ReadTimeout: time.Second})
			hook := panicking{new(atomic.Int32)}
			hook.left.Store(1)
			if !after {
				client.AddHook(hook)
			}
			backend := newStore(t, client)
			if after {
				client.AddHook(hook)
			}
			l := storecall.New(backend)
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
						t.Errorf("take %d: %v", n, err)
					}
				case <-time.After(redistest.Patience):
					t.Fatalf("take %d goes on after its deadline", n)
				}
				cancel()
			}
			if panicked > 1 {
				t.Errorf("%d takes have the error of one panic", panicked)
			}
		})
	}
}
