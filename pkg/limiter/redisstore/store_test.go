package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// harnessed is a store together with a client of the servers behind it, and its prefix.
type harnessed struct {
	*redisstore.Store
	client redis.UniversalClient
	prefix string
}

func harness(sequences int, open func(tb testing.TB, clock func() time.Time) harnessed) storetest.Harness {
	return storetest.Harness{
		Sequences: sequences, DropsEnded: true,
		New:    func(tb testing.TB, clock func() time.Time) store.Store { return open(tb, clock) },
		Dump:   func(tb testing.TB, backend store.Store) string { return backend.(harnessed).dump(tb) },
		Prefix: func(backend store.Store) string { return backend.(harnessed).prefix },
		Plant: func(tb testing.TB, backend store.Store, key store.Key, value string) func() bool {
			s := backend.(harnessed)
			storeKey := admin.OwnLayout(s.prefix).StoreKey(key)
			must(tb, s.client.Set(ctx, storeKey, value, 0).Err())
			return func() bool {
				got, err := s.client.Get(ctx, storeKey).Result()
				return err == nil && got == value && s.client.PTTL(ctx, storeKey).Val() == -1
			}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(1_500, func(tb testing.TB, clock func() time.Time) harnessed {
		server := redistest.Start(tb)
		s := harnessed{client: socketClient(tb, server), prefix: store.DefaultPrefix}
		if clock == nil { // its own client, so that both kinds are held to the laws
			s.Store = newStore(tb, socketClient(tb, server))
			return s
		}
		var err error
		if s.Store, err = redisstore.New(s.client, redisstore.WithClock(clock),
			redisstore.WithBudget(time.Minute)); err != nil {
			tb.Fatal(err)
		}
		return s
	}))
}

// All stores share a Cluster, each with a prefix of its own.
func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	client := clusterClient(t, redistest.StartCluster(t), redis.ClusterOptions{PoolSize: 64})
	owner := newStore(t, client) // whose hooks serve all others
	t.Cleanup(func() { owner.Close() })
	var stores atomic.Int64
	h := harness(40, func(tb testing.TB, clock func() time.Time) harnessed {
		s := harnessed{client: client, prefix: fmt.Sprintf("store%d", stores.Add(1))}
		options := []redisstore.Option{redisstore.WithPrefix(s.prefix), redisstore.WithBudget(time.Minute)}
		if clock != nil {
			options = append(options, redisstore.WithClock(clock))
		}
		var err error
		if s.Store, err = redisstore.New(client, options...); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { // every scan of the others goes by its keys
			onServers(tb, client, func(ctx context.Context, server *redis.Client) error {
				keys, err := server.Keys(ctx, s.prefix+"*").Result()
				pipe := server.Pipeline()
				for _, key := range keys {
					pipe.Unlink(ctx, key)
				}
				pipe.Exec(ctx)
				return err
			})
		})
		return s
	})
	h.Routing = true
	storetest.Run(t, h)
}

func (s harnessed) dump(tb testing.TB) string {
	tb.Helper()
	return dump(tb, s.client, s.prefix)
}

// dump writes down every key under a prefix with its value and the instant it expires at.
func dump(tb testing.TB, client redis.UniversalClient, prefix string) string {
	tb.Helper()
	var lines []string
	for key, value := range keysIn(tb, client, prefix+"*") {
		lines = append(lines, fmt.Sprintf("%s %x", key, value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// onServers calls do for each master of a Cluster, side by side, or for the only server.
func onServers(tb testing.TB, client redis.UniversalClient, do func(context.Context, *redis.Client) error) {
	tb.Helper()
	var err error
	switch client := client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, do)
	case *redis.Client:
		err = do(ctx, client)
	}
	must(tb, err)
}

// keysIn returns the keys of servers that match a pattern: what DUMP says of each, and until when it is kept.
func keysIn(tb testing.TB, client redis.UniversalClient, pattern string) map[string]string {
	tb.Helper()
	all := map[string]string{}
	var adding sync.Mutex
	onServers(tb, client, func(ctx context.Context, server *redis.Client) error {
		keys, err := server.Keys(ctx, pattern).Result()
		pipe := server.Pipeline()
		for _, key := range keys {
			pipe.Dump(ctx, key)
			pipe.PExpireTime(ctx, key)
			pipe.HGetAll(ctx, key) // whose fields have no order
		}
		replies, _ := pipe.Exec(ctx) // most keys are no hashes
		adding.Lock()
		defer adding.Unlock()
		for i, key := range keys {
			value, fields := replies[3*i].(*redis.StringCmd).Val(), replies[3*i+2].(*redis.MapStringStringCmd)
			if fields.Err() == nil {
				value = fmt.Sprint(fields.Val())
			}
			all[key] = fmt.Sprint(value, replies[3*i+1].(*redis.DurationCmd).Val())
		}
		return err
	})
	return all
}

// socketClient connects by the unix socket, which is faster than TCP.
func socketClient(tb testing.TB, server *redistest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket, DisableIdentity: true, PoolSize: 64})
	tb.Cleanup(func() { client.Close() })
	return client
}
