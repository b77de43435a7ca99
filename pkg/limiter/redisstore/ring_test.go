package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
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
