package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// oneDenial is of a key that nothing else uses.
var oneDenial = admin.Denials{Rows: []admin.Denied{{Key: store.Key{Subject: "u", Name: "n"}, Count: 1}}}

// What is added is in the hash of the minute and in that of the ten minutes, every field of it, and the sum of all with
// whether some are lost.
func TestWhatATableOfDenialsHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.UnixMilli(1_795_294_331_450)
	backend := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { return now }))
	coarse := fmt.Sprintf("rl!{denials:%d}", now.Unix()/600)
	key := fmt.Sprintf("%s:%d", coarse, now.Unix()/60)
	// By a clock of its own, of which the second is ahead.
	a := admin.Denied{Key: store.Key{Subject: "a", Name: "n"}, Count: 3, LastAt: 9_000_000, Since: 8_999_000, Blocked: 1,
		Compared: 2, Allowed: 7, Override: "5y7qnswd",
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute}}
	b := admin.Denied{Key: store.Key{Subject: "b", Name: "n"}, Count: 1, LastAt: 11_000_000}
	must(t, backend.AddDenials(ctx, admin.Denials{Rows: []admin.Denied{a, b}, Others: 5, Lost: true, Now: 10_000_000}))
	packed := func(texts string, numbers ...int64) (field string) {
		for _, n := range numbers {
			field += sixBytes(n)
		}
		return field + texts
	}
	want := map[string]string{"": packed("\x00", 9, 1, 0, 0, 0, 0),
		"a\x00n": packed("token-bucket:10/1m\x005y7qnswd", 3, 1_795_294_330_450, 1_795_294_330_449, 1, 2, 7),
		"b\x00n": packed("\x00", 1, 1_795_294_331_450, 1_795_294_331_450, 0, 0, 0)}
	for key, expires := range map[string]int64{key: (now.Unix()/60+1)*60_000 + 3_600_000,
		coarse: (now.Unix()/600+1)*600_000 + 24*3_600_000} {
		if held, err := server.Client().HGetAll(ctx, key).Result(); err != nil || !maps.Equal(held, want) {
			t.Errorf("%s holds %q, %v, want %q", key, held, err, want)
		}
		late := time.Since(now).Milliseconds() // it expires by the server's clock
		if got, _ := server.Do("PEXPIRETIME", key).(int64); got < expires+late-60_000 || got > expires+late+1 {
			t.Errorf("%s expires at %d ms, want %d by our clock", key, got, expires)
		}
	}
	// What was denied in the future, by a clock that is wrong or by nobody, was denied now at the latest: a year beyond
	// 9999 could not be written as JSON.
	server.Do("HSET", key, "a\x00n", packed("\x00", 1, 1<<48-1, 1<<48-1, 0, 0, 0))
	d, err := backend.Denials(ctx, time.Minute)
	if at := store.InstantOf(now); err != nil || len(d.Rows) != 2 || d.Rows[0].LastAt != at || d.Rows[0].Since != at {
		t.Errorf("%+v, %v", d, err)
	}
}

// Ten minutes after the other are keys of different slots. With a master away, the steps of the others are read, the
// masters that answer are not kept waiting, and the error names the one that is missing.
func TestDenialsWithAMasterAway(t *testing.T) {
	t.Parallel()
	// The others would stop, too, once they notice.
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	now := time.Now()
	backend := newStore(t, clusterClient(t, cluster, redis.ClusterOptions{}),
		redisstore.WithClock(func() time.Time { return now }))
	for range 30 {
		must(t, backend.AddDenials(ctx, oneDenial))
		now = now.Add(10 * time.Minute)
	}
	away := cluster.Masters[1].Addr
	client := redis.NewClient(&redis.Options{Addr: away})
	defer client.Close()
	missing, err := client.Keys(ctx, "rl!{denials:*}").Result()
	if err != nil || len(missing) == 0 || len(missing) == 30 {
		t.Fatalf("the master has %d of 30 steps, %v", len(missing), err)
	}
	cluster.Masters[1].Pause()
	t.Cleanup(cluster.Masters[1].Resume)
	redistest.Patiently(t, time.Second, func(budget time.Duration) error {
		ctx, cancel := store.BudgetContext(ctx, budget)
		defer cancel()
		d, err := backend.Denials(ctx, admin.DenialHistory)
		var incomplete *admin.IncompleteError
		if !errors.As(err, &incomplete) || incomplete.Shard != away || !store.IsAway(err) {
			return fmt.Errorf("with one master away: %w", err)
		}
		if want := int64(30 - len(missing)); len(d.Rows) != 1 || d.Rows[0].Count != want || !d.Lost {
			return fmt.Errorf("%+v, want %d denials", d, want)
		}
		return nil
	})
}

// What somebody else has put there stays as it is.
func TestForeignDenials(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.Now()
	backend := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { return now }))
	coarse := fmt.Sprintf("rl!{denials:%d}", now.Unix()/600)
	fine := fmt.Sprintf("%s:%d", coarse, now.Unix()/60)
	for key, last := range map[string]time.Duration{fine: time.Minute, coarse: admin.DenialHistory} {
		for _, plant := range [][]any{{"SET", key, "x"}, {"HSET", key, "a", "b"}, {"HSET", key, "", "b"}} {
			server.Do(plant...)
			before := fmt.Sprint(server.Do("DUMP", key))
			if err := backend.AddDenials(ctx, oneDenial); err == nil || store.IsAway(err) {
				t.Errorf("%v: added, %v", plant, err)
			}
			if _, err := backend.Denials(ctx, last); !errors.Is(err, store.ErrForeign) {
				t.Errorf("%v: read, %v", plant, err)
			}
			if fmt.Sprint(server.Do("DUMP", key)) != before || server.Do("DBSIZE").(int64) != 1 {
				t.Errorf("%v: something was changed", plant)
			}
			server.Do("DEL", key)
		}
	}
}
