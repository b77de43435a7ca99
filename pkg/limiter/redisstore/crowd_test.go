package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// forever is longer than any test runs. What would only end after it hangs.
const forever = time.Hour

// openPatient opens a store whose client gives up nothing by itself.
func openPatient(t *testing.T, server *redistest.Server, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: forever, PoolTimeout: forever,
		MaxRetries:      -1,
		DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	backend := newStore(t, client, options...)
	return backend
}

// takingOf returns a function that takes a unit of backend; each i has a key of its own.
func takingOf(backend store.Store) func(ctx context.Context, i int) error {
	l := storecall.New(backend)
	return func(ctx context.Context, i int) error {
		_, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("user:%d", i)}, yearly(1000), 1)
		return err
	}
}

// waiters is callers that wait for an answer.
type waiters struct {
	callers sync.WaitGroup
	leave   context.CancelFunc
	mu      sync.Mutex
	errs    []error
}

// enter starts n callers of take, who wait until leave is called. Those that are sent
// without a queue wait for their answer.
func enter(n int, take func(ctx context.Context, i int) error) *waiters {
	ctx, cancel := context.WithCancel(ctx)
	return enterWith(ctx, cancel, n, take)
}

func enterWith(ctx context.Context, cancel context.CancelFunc, n int,
	take func(ctx context.Context, i int) error) *waiters {
	c := &waiters{leave: cancel}
	for i := range n {
		c.callers.Go(func() {
			err := take(ctx, i)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.errs = append(c.errs, err)
		})
	}
	return c
}

// left lets the crowd leave, waits until all have, and returns what they were told.
func (c *waiters) left() []error {
	c.leave()
	c.callers.Wait()
	return c.errs
}

// wait waits until the crowd has left by itself, and returns what they were told.
func (c *waiters) wait() []error {
	c.callers.Wait()
	c.leave()
	return c.errs
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustTake takes, and ends the test on an error.
func mustTake(t testing.TB, l *storecall.Caller, key store.Key, limit store.Limit, cost int64) {
	t.Helper()
	_, err := l.Take(t.Context(), key, limit, cost)
	must(t, err)
}
