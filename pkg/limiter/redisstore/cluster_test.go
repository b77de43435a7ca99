package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// clusterClient returns a client of cluster, or of the addresses in options if that
// is nil. Like limitctl's own it gives up when its caller does.
func clusterClient(t *testing.T, cluster *redistest.Cluster, options redis.ClusterOptions) *redis.ClusterClient {
	t.Helper()
	if cluster != nil {
		options.Addrs = cluster.Addrs()
	}
	options.DisableIdentity, options.ContextTimeoutEnabled = true, true
	if options.ReadTimeout == 0 {
		options.ReadTimeout = redistest.Patience
	}
	client := redis.NewClusterClient(&options)
	t.Cleanup(func() { client.Close() })
	return client
}

// onCluster returns a limiter on a Cluster, and its client.
func onCluster(t *testing.T, options redis.ClusterOptions) (*storecall.Caller, *redisstore.Store) {
	t.Helper()
	backend := newStore(t, clusterClient(t, nil, options))
	return storecall.New(backend), backend
}

// owner returns which master has the subject's keys.
func owner(t *testing.T, cluster *redistest.Cluster, subject string) (master, slot int) {
	t.Helper()
	slot = redisserver.SlotOf(subject)
	master, err := cluster.Owner(slot)
	must(t, err)
	return master, slot
}

// While slots move every take is charged once, in pipelines, too.
func TestTakesFollowASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l, _ := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	from, slot := owner(t, cluster, user.Subject)
	to := (from + 1) % 3
	const callers, each = 16, 50
	limit := yearly(1_000_000)
	begun := make(chan struct{}, callers*each)
	var all sync.WaitGroup
	take := func(callers, each int) {
		for range callers {
			all.Go(func() {
				for range each {
					if _, err := l.Take(ctx, user, limit, 1); err != nil {
						t.Error(err)
					}
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	take(callers, each)
	for range callers {
		<-begun
	}
	for range 3 {
		must(t, cluster.MoveSlot(slot, to))
		from, to = to, from
	}
	all.Wait()
	// Half moved, the key on the other side already: the node that has the slot answers ASK, once for each of these.
	from, _ = owner(t, cluster, user.Subject)
	if err := cluster.BeginMoveSlot(slot, (from+1)%3, admin.OwnLayout("rl").StoreKey(
		store.Key{Subject: user.Subject, Name: limit.DefaultName()})); err != nil {
		t.Fatal(err)
	}
	take(1, 5)
	all.Wait()
	take(callers, 1)
	all.Wait()
	if got := used(t, l, limit); got != callers*each+5+callers {
		t.Errorf("%d used after %d takes", got, callers*each+5+callers)
	}
}

// Law 9 on a Cluster, whose client retries by default and on other nodes, too.
func TestLaw09_NeverChargedTwiceOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "10000") // longer than the pause
	i, _ := owner(t, cluster, user.Subject)
	patient, _ := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs()})
	limit := yearly(10_000)
	known, unknown := 0, 0
	redistest.Patiently(t, 300*time.Millisecond, func(timeout time.Duration) (missing error) {
		l, _ := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRedirects: 3, MaxRetries: 3,
			DialerRetries: 1,
			ReadTimeout:   timeout})
		errs := make([]error, 12) // some go alone, the others in pipelines
		take := func() (left int) {
			var all sync.WaitGroup
			for n := range errs {
				all.Go(func() { _, errs[n] = l.Take(ctx, user, limit, 1) })
			}
			all.Wait()
			for _, err := range errs {
				switch {
				case err == nil:
					known++
				case errors.Is(err, store.ErrOutcomeUnknown):
					left++
				case !errors.Is(err, store.ErrUnavailable):
					t.Errorf("got %v, want an error that says it is away", err)
				}
			}
			unknown += left
			return left
		}
		for range 3 { // for connections to be there
			if take(); errors.Join(errs...) != nil {
				return errors.Join(errs...)
			}
		}
		cluster.Masters[i].Pause()
		left := take()
		cluster.Masters[i].Resume()
		must(t, cluster.WaitUsable())
		if left < 4 {
			return fmt.Errorf("%d takes had left, which proves little: %v", left, errs)
		}
		return nil
	})
	if got := used(t, patient, limit); got > int64(known+unknown) {
		t.Errorf("%d used after %d takes and %d whose outcome is unknown", got, known, unknown)
	}
}

// What did not get as far as a node is not in doubt, also after a scan, which gets to know the nodes before the
// first call does.
func TestWhatNeverReachedANodeIsNotInDoubt(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	check := func(name string, l *storecall.Caller) {
		t.Helper()
		if _, err := l.Take(ctx, user, hundred, 1); !errors.Is(err, store.ErrUnavailable) ||
			errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("%s: %v, want an ErrUnavailable", name, err)
		}
	}
	client := clusterClient(t, cluster, redis.ClusterOptions{PoolSize: 1, PoolTimeout: 50 * time.Millisecond})
	backend := newStore(t, client)
	for _, err := range backend.Scan(ctx, admin.Query{Subjects: everyKey}) {
		t.Fatal(err)
	}
	if err := client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		held := master.Conn() // the only one
		t.Cleanup(func() { held.Close() })
		return held.Ping(ctx).Err()
	}); err != nil {
		t.Fatal(err)
	}
	check("without a connection, after a scan", storecall.New(backend))

	late, _ := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs(), DialerRetries: 1})
	mustTake(t, late, user, hundred, 1)
	for _, node := range cluster.Masters {
		node.Kill()
	}
	killed, _ := onCluster(t, redis.ClusterOptions{Addrs: cluster.Addrs(), DialerRetries: 1})
	check("every node is gone", killed)
	check("every node is gone since", late)
}

func TestASingleServerIsNoCluster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, _ := onCluster(t, redis.ClusterOptions{Addrs: []string{server.Addr}})
	if _, err := l.Take(ctx, user, hundred, 1); !errors.Is(err, store.ErrRefused) ||
		!strings.Contains(err.Error(), "single server") {
		t.Errorf("got %v, want an ErrRefused that says it is a single server", err)
	}
	cluster := redistest.StartCluster(t)
	i, _ := owner(t, cluster, user.Subject)
	other := slices.Concat(cluster.Masters[:i], cluster.Masters[i+1:])[0]
	l = connected(t, &redistest.Server{Process: other}, redis.Options{})
	if _, err := l.Take(ctx, user, hundred, 1); !errors.Is(err, store.ErrRefused) ||
		!strings.Contains(err.Error(), "connect to it as a Cluster") {
		t.Errorf("got %v, want an ErrRefused that says it is a Cluster", err)
	}
}
