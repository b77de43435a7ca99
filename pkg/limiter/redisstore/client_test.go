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

// haveSettings fails unless a client has the settings that fit a limiter.
func haveSettings(t *testing.T, client *redis.Client) {
	t.Helper()
	if o := client.Options(); o.ReadTimeout != redisstore.DefaultTimeout || !o.ContextTimeoutEnabled || o.MaxRetries != 0 ||
		o.DialerRetries != 1 {
		t.Errorf("%+v", o)
	}
}

// A dead server is dialled once, and a frozen one is asked once and given up: without a
// deadline of the caller's own, too.
func TestAClientGivesUpAtOnce(t *testing.T) {
	server := redistest.Start(t)
	var dials atomic.Int64
	client := redisstore.NewClient(redis.Options{Addr: server.Addr, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	haveSettings(t, client)
	limits := storecall.New(newStore(t, client))
	givesUpOn(t, server.Process, limits)
	before := dials.Load()
	for range 3 { // the first may find its connection dead
		if _, err := limits.Peek(ctx, user, hundred, 1); !store.IsAway(err) {
			t.Errorf("dead: %v", err)
		}
	}
	if n := dials.Load() - before; n > 3 {
		t.Errorf("three calls dialled %d times", n)
	}
}

// givesUpOn freezes a server, and kills it.
func givesUpOn(t *testing.T, server *redistest.Process, limits *storecall.Caller) {
	t.Helper()
	used := atLast(t, limits.Take)
	server.Pause()
	if _, err := limits.Take(ctx, user, hundred, 1); !store.IsAway(err) {
		t.Errorf("frozen: %v", err)
	}
	server.Resume()
	if after := atLast(t, limits.Peek); after > used+1 {
		t.Errorf("one unit was taken twice or more: %d were used before, and %d after", used, after)
	}
	server.Kill()
	if _, err := limits.Take(ctx, user, hundred, 1); !store.IsAway(err) {
		t.Errorf("dead: %v", err)
	}
}

// A Cluster whose node is frozen or dead is asked once and given up, too, and its nodes have
// the same settings, as has the master that Sentinels name.
func TestAClusterClientGivesUpAtOnce(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "10000") // longer than the pause
	client := redisstore.NewClusterClient(redis.ClusterOptions{Addrs: cluster.Addrs()})
	client.OnNewNode(func(node *redis.Client) { haveSettings(t, node) })
	master, _ := owner(t, cluster, user.Subject)
	givesUpOn(t, cluster.Masters[master], storecall.New(newStore(t, client)))
	haveSettings(t, redisstore.NewFailoverClient(redis.FailoverOptions{MasterName: "m", SentinelAddrs: cluster.Addrs()}))
}
