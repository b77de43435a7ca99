package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A server that stalls while keys of other limiters are changed leaves the outcome unknown, and
// nothing is sent twice. One that is away changes nothing, and says so.
func TestLayoutChangesWhileTheServerStalls(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, ReadTimeout: redistest.Patience,
		ContextTimeoutEnabled: true, MaxRetries: 3})
	t.Cleanup(func() { client.Close() })
	keys := othersOn(t, client)
	for i := range 300 {
		server.Do("SET", fmt.Sprint("pair:", i), 5, "EX", 1000)
	}
	server.Do("HSET", "bucket:h", "n", 5)
	records := recordsOf(t, keys)
	for verb, change := range map[string]func(admin.Keyspace) error{
		"deletion": func(keys admin.Keyspace) error { _, _, err := keys.Delete(ctx, records...); return err },
		"import":   func(keys admin.Keyspace) error { _, err := keys.Import(ctx, true, records...); return err },
	} {
		redistest.Patiently(t, 300*time.Millisecond, func(budget time.Duration) (missing error) {
			if err := client.Ping(ctx).Err(); err != nil { // there is a connection
				t.Fatal(err)
			}
			server.Pause()
			err := change(othersOn(t, client, redisstore.WithBudget(budget)))
			server.Resume()
			if !errors.Is(err, store.ErrOutcomeUnknown) || !strings.Contains(err.Error(), verb) {
				return fmt.Errorf("%s: %w", verb, err)
			}
			return nil
		})
	}
	server.Kill()
	for name, change := range map[string]func() error{
		"deletion": func() error { _, _, err := keys.Delete(ctx, records...); return err },
		"import":   func() error { _, err := keys.Import(ctx, true, records...); return err },
		"scan": func() error {
			_, errs := scanned(t, keys, admin.Query{})
			return errors.Join(errs...)
		},
	} {
		if err := change(); !store.IsAway(err) {
			t.Errorf("%s of a server that is away: %v", name, err)
		}
	}
}

// A right that is missing in the middle ends a change with its name, and half a family is never
// changed.
func TestLayoutChangesWithoutARight(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", "pair:a", 5)
	server.Do("SET", "pair:a:timer", 5)
	server.Do("HSET", "bucket:a", "n", 5)
	records := recordsOf(t, othersAt(t, server))
	without := func(what string, rights ...any) {
		options := as(server, rights...)
		client := redis.NewClient(&options)
		t.Cleanup(func() { client.Close() })
		_, _, err := othersOn(t, client).Delete(ctx, records...)
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), what) || server.Do("DBSIZE") != int64(3) {
			t.Errorf("without the right to %s: %v; %v keys are left", what, err, server.Do("DBSIZE"))
		}
	}
	for _, right := range []string{"unlink", "get", "dump"} {
		without(right, "~*", "+@all", "-"+right)
	}
	without("key", "~pair:a", "~bucket:*", "+@all")
}
