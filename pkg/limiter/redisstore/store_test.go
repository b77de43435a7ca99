package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// harnessed is a store together with the server behind it.
type harnessed struct {
	*redisstore.Store
	client *redis.Client
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Sequences: 1_500, DropsEnded: true,
		New: func(tb testing.TB, clock func() time.Time) store.Store {
			server := redistest.Start(tb)
			client := socketClient(tb, server)
			var backend *redisstore.Store
			var err error
			if clock != nil {
				backend, err = redisstore.New(client, redisstore.WithClock(clock))
			} else { // its own client, so that both kinds are held to the laws
				backend, err = redisstore.Own(socketClient(tb, server))
			}
			if err != nil {
				tb.Fatal(err)
			}
			return harnessed{backend, client}
		},
		Dump: func(tb testing.TB, backend store.Store) string {
			return dump(tb, backend.(harnessed).client)
		},
		Plant: func(tb testing.TB, backend store.Store, key store.Key, value string) func() bool {
			client, storeKey := backend.(harnessed).client, admin.OwnLayout(store.DefaultPrefix).StoreKey(key)
			if err := client.Set(context.Background(), storeKey, value, 0).Err(); err != nil {
				tb.Fatal(err)
			}
			return func() bool {
				got, err := client.Get(context.Background(), storeKey).Result()
				return err == nil && got == value && client.PTTL(context.Background(), storeKey).Val() == -1
			}
		},
	})
}

// socketClient connects by the unix socket, which is faster than TCP.
func socketClient(tb testing.TB, server *redistest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket, DisableIdentity: true, PoolSize: 64})
	tb.Cleanup(func() { client.Close() })
	return client
}

// dump writes down every key with its value and the instant it expires at.
func dump(tb testing.TB, client *redis.Client) string {
	tb.Helper()
	ctx := context.Background()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		value, err := client.Get(ctx, key).Result()
		if redisserver.IsErrorReply(err, "WRONGTYPE") { // a stream
			value, err = client.Dump(ctx, key).Result()
		}
		if err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x until %d\n", key, value, client.PExpireTime(ctx, key).Val().Milliseconds())
	}
	return b.String()
}
