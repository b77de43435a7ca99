package redisstore_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// atLast takes or peeks until that is answered, and returns the usage: a busy machine may not answer within the default
// time-out.
func atLast(t *testing.T, decide func(context.Context, store.Key, store.Limit, int64) (store.Decision, error)) int64 {
	t.Helper()
	for deadline := time.Now().Add(redistest.Patience); ; {
		d, err := decide(ctx, user, hundred, 1)
		if err == nil {
			return d.Used
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

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
	backend := newStore(t, client)
	t.Cleanup(func() { backend.Close() })
	limits := storecall.New(backend)
	used := atLast(t, limits.Take)
	server.Pause()
	if _, err := limits.Take(context.Background(), user, hundred, 1); !store.IsAway(err) {
		t.Errorf("frozen: %v", err)
	}
	server.Resume()
	if after := atLast(t, limits.Peek); after > used+1 {
		t.Errorf("one unit was taken twice or more: %d were used before, and %d after", used, after)
	}
	server.Kill()
	before := dials.Load()
	for range 3 { // the first may find its connection dead
		if _, err := limits.Peek(context.Background(), user, hundred, 1); !store.IsAway(err) {
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

// A Cluster whose node is frozen or dead is asked once and given up, too, and its nodes have
// the same settings.
func TestAClusterClientGivesUpAtOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "10000") // longer than the pause
	client := redisstore.NewClusterClient(redis.ClusterOptions{Addrs: cluster.Addrs()})
	backend := newStore(t, client)
	t.Cleanup(func() { backend.Close() })
	limits := storecall.New(backend)
	used := atLast(t, limits.Take)
	master, _ := owner(t, cluster, user.Subject)
	cluster.Masters[master].Pause()
	if _, err := limits.Take(ctx, user, hundred, 1); !store.IsAway(err) {
		t.Errorf("frozen: %v", err)
	}
	cluster.Masters[master].Resume()
	if after := atLast(t, limits.Peek); after > used+1 {
		t.Errorf("one unit was taken twice or more: %d were used before, and %d after", used, after)
	}
	cluster.Masters[master].Kill()
	if _, err := limits.Take(ctx, user, hundred, 1); !store.IsAway(err) {
		t.Errorf("dead: %v", err)
	}
	err := client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if o := node.Options(); o.ReadTimeout != redisstore.DefaultTimeout || !o.ContextTimeoutEnabled || o.MaxRetries != 0 ||
			o.DialerRetries != 1 {
			t.Errorf("%+v", o)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The master that Sentinels name is asked with the same settings, too.
func TestAFailoverClientFindsTheMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	client := redisstore.NewFailoverClient(redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: sentinel.Addrs()})
	backend := newStore(t, client)
	t.Cleanup(func() { backend.Close() })
	atLast(t, storecall.New(backend).Take)
	o := client.Options()
	if o.ReadTimeout != redisstore.DefaultTimeout || !o.ContextTimeoutEnabled || o.MaxRetries != 0 || o.DialerRetries != 1 {
		t.Errorf("%+v", o)
	}
}
