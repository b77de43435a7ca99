package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// A dead server is dialled once, and a frozen one is asked once and given up: without a
// deadline of the caller's own, too.
func TestAClientGivesUpAtOnce(t *testing.T) {
	server := redistest.Start(t)
	var dials atomic.Int64
	address := server.Addr
	client := redisstore.NewClient(redis.Options{Addr: server.Addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	store, err := redisstore.New(client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limits, key, limit := limiter.New(store), limiter.Key{Subject: "u"}, limiter.Limit{Count: 10, Period: time.Hour}
	if d, err := limits.Take(context.Background(), key, limit, 1); err != nil || d.Used != 1 || dials.Load() != 1 {
		t.Fatalf("%+v, %v, dialled %d times", d, err, dials.Load())
	}
	server.Pause()
	if _, err := limits.Take(context.Background(), key, limit, 1); !limiter.IsAway(err) {
		t.Errorf("frozen: %v", err)
	}
	server.Resume()
	if d, err := limits.Peek(context.Background(), key, limit, 1); err != nil || d.Used > 2 {
		t.Errorf("one unit was taken twice or more: %+v, %v", d, err)
	}
	server.Kill()
	before := dials.Load()
	for range 3 { // the first may find its connection dead
		if _, err := limits.Peek(context.Background(), key, limit, 1); !limiter.IsAway(err) {
			t.Errorf("dead: %v", err)
		}
	}
	if n := dials.Load() - before; n > 3 {
		t.Errorf("three calls dialled %d times", n)
	}
	if o := client.Options(); o.ReadTimeout != redisstore.DefaultTimeout || !o.ContextTimeoutEnabled {
		t.Errorf("%+v", o)
	}
}
