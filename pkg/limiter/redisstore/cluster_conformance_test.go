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

// clustered is a store on a Cluster that it shares with others, each of which has
// a prefix of its own.
type clustered struct {
	*redisstore.Store
	client *redis.ClusterClient
	prefix string
}

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := clusterClient(t, cluster, redis.ClusterOptions{PoolSize: 64})
	owner, err := redisstore.Own(client) // whose hooks serve all others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close() })
	var stores atomic.Int64
	storetest.Run(t, storetest.Harness{
		Sequences: 60, DropsEnded: true,
		New: func(tb testing.TB, clock func() time.Time) store.Store {
			s := clustered{client: client, prefix: fmt.Sprintf("store%d", stores.Add(1))}
			options := []redisstore.Option{redisstore.WithPrefix(s.prefix)}
			if clock != nil {
				options = append(options, redisstore.WithClock(clock))
			}
			var err error
			if s.Store, err = redisstore.New(client, options...); err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { s.clear(tb) }) // every scan of the others goes by its keys
			return s
		},
		Dump:   func(tb testing.TB, backend store.Store) string { return backend.(clustered).dump(tb) },
		Prefix: func(backend store.Store) string { return backend.(clustered).prefix },
		Plant: func(tb testing.TB, backend store.Store, key store.Key, value string) func() bool {
			storeKey := admin.OwnLayout(backend.(clustered).prefix).StoreKey(key)
			if err := client.Set(ctx, storeKey, value, 0).Err(); err != nil {
				tb.Fatal(err)
			}
			return func() bool {
				got, err := client.Get(ctx, storeKey).Result()
				return err == nil && got == value && client.PTTL(ctx, storeKey).Val() == -1
			}
		},
	})
}

// keys returns the store's keys on all masters.
func (c clustered) keys(tb testing.TB) []string {
	var mu sync.Mutex
	var keys []string
	err := c.client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		found, err := master.Keys(ctx, c.prefix+":*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (c clustered) dump(tb testing.TB) string {
	tb.Helper()
	keys := c.keys(tb)
	values, expiries := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	_, err := c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range keys {
			values[i], expiries[i] = pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for i, key := range keys {
		fmt.Fprintf(&b, "%s %x until %d\n", key, values[i].Val(), expiries[i].Val().Milliseconds())
	}
	return b.String()
}

func (c clustered) clear(tb testing.TB) {
	keys := c.keys(tb)
	_, err := c.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keys {
			pipe.Unlink(ctx, key)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}
