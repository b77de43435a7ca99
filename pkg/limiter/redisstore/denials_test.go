package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
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
// whether some are lost. Beyond 1,500 keys of a minute the 1,000 stay that were denied most, and 200 of ten minutes.
func TestWhatATableOfDenialsHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.UnixMilli(1_795_294_331_450)
	backend := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { return now }))
	coarse := fmt.Sprintf("rl!{denials:%d}", now.Unix()/600)
	key := fmt.Sprintf("%s:%d", coarse, now.Unix()/60)
	add := func(lost bool, others int64, rows ...admin.Denied) {
		t.Helper()
		d := admin.Denials{Rows: rows, Others: others, Lost: lost, Now: 10_000_000} // by a clock of its own
		must(t, backend.AddDenials(ctx, d))
	}
	denied := func(subject string, count int64, last store.Instant) admin.Denied {
		return admin.Denied{Key: store.Key{Subject: subject, Name: "n"}, Count: count, LastAt: last}
	}
	type value struct {
		count, last, since, blocked, compared, allowed int64
		texts                                          string
	}
	want := func(fields map[string]value) {
		t.Helper()
		for _, key := range []string{key, coarse} {
			held, err := server.Client().HGetAll(ctx, key).Result()
			if err != nil || len(held) != len(fields) {
				t.Errorf("%q, %v; want %d fields", held, err, len(fields))
			}
			for field, v := range fields {
				packed := ""
				for _, n := range []int64{v.count, v.last, v.since, v.blocked, v.compared, v.allowed} {
					packed += sixBytes(n)
				}
				if held[field] != packed+v.texts {
					t.Errorf("%s: %q holds %q, want %+v", key, field, held[field], v)
				}
			}
		}
	}
	const none = "\x00" // neither a limit nor an override
	a := denied("a", 3, 9_000_000)
	a.Since, a.Blocked, a.Compared, a.Allowed, a.Override = 8_999_000, 1, 2, 7, "5y7qnswd"
	a.Limit = store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute}
	add(false, 0, a, denied("b", 1, 10_000_000))
	want(map[string]value{"": {count: 4, texts: none}, "b\x00n": {1, 1_795_294_331_450, 1_795_294_331_450, 0, 0,
		0, none},
		"a\x00n": {3, 1_795_294_330_450, 1_795_294_330_449, 1, 2, 7, "token-bucket:10/1m\x005y7qnswd"}})
	late := denied("a", 1, 8_000_000) // an older one that came late
	late.Allowed, late.Limit = 2, store.Limit{Algorithm: store.SlidingLog, Count: 5, Period: time.Minute}
	add(true, 5, late)
	want(map[string]value{"": {count: 10, last: 1, texts: none},
		"b\x00n": {1, 1_795_294_331_450, 1_795_294_331_450, 0, 0, 0, none},
		"a\x00n": {4, 1_795_294_330_450, 1_795_294_329_450, 1, 2, 9, "sliding-log:5/1m\x005y7qnswd"}})
	now = now.Add(2 * time.Second)
	add(false, 0, denied("b", 1, 10_000_000), denied("c", 1, 11_000_000)) // the last is ahead of its own clock
	want(map[string]value{"": {count: 12, last: 1, texts: none},
		"b\x00n": {2, 1_795_294_333_450, 1_795_294_331_450, 0, 0, 0, none},
		"c\x00n": {1, 1_795_294_333_450, 1_795_294_333_450, 0, 0, 0, none},
		"a\x00n": {4, 1_795_294_330_450, 1_795_294_329_450, 1, 2, 9, "sliding-log:5/1m\x005y7qnswd"}})
	for key, expires := range map[string]int64{key: (now.Unix()/60+1)*60_000 + 3_600_000,
		coarse: (now.Unix()/600+1)*600_000 + 24*3_600_000} {
		late := time.Since(now).Milliseconds() // it expires by the server's clock
		if got, _ := server.Do("PEXPIRETIME", key).(int64); got < expires+late-60_000 || got > expires+late+1 {
			t.Errorf("%s expires at %d ms, want %d by our clock", key, got, expires)
		}
	}
	server.Do("DEL", coarse, key)
	for write := range 8 {
		var rows []admin.Denied
		for i := range admin.MaxDenialRows {
			rows = append(rows, denied(fmt.Sprintf("%d:%d", write, i), int64(1+i%2), 10_000_000))
		}
		add(false, 0, rows...)
	}
	if held, _ := server.Do("HLEN", key).(int64); held != 1601 {
		t.Errorf("%d fields are held of 1,600 keys", held) // each write looks at what there was before
	}
	add(false, 0, denied("0:1", 1, 10_000_000))
	if held, _ := server.Do("HLEN", key).(int64); held != 1001 {
		t.Errorf("%d fields are held after that, want 1,000 keys and the sum", held)
	}
	if held, _ := server.Do("HLEN", coarse).(int64); held != 201 && held != 202 {
		t.Errorf("%d fields are held of ten minutes, want 200 keys and the sum, and the one that was added last", held)
	}
	d, err := backend.Denials(ctx, time.Minute)
	if err != nil || len(d.Rows) != 1000 || d.Others != 600 || d.Lost ||
		d.Rows[0].Count != 3 || d.Rows[799].Count != 2 || d.Rows[800].Count != 1 {
		t.Errorf("%d rows, %d others, %v: %.300v", len(d.Rows), d.Others, err, d.Rows)
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

// What was denied in the future, by a clock that is wrong or by nobody, was denied now at the latest: a year beyond
// 9999 could not be written as JSON.
func TestDenialsOfTheFuture(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.UnixMilli(1_795_294_331_450)
	backend := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { return now }))
	one, never, most := sixBytes(1), sixBytes(0), sixBytes(1<<48-1)
	server.Do("HSET", fmt.Sprintf("rl!{denials:%d}:%d", now.Unix()/600, now.Unix()/60), "",
		one+strings.Repeat(never, 5)+"\x00",
		"a\x00n", one+most+most+strings.Repeat(never, 3)+"\x00")
	d, err := backend.Denials(ctx, time.Minute)
	if at := store.InstantOf(now); err != nil || len(d.Rows) != 1 || d.Rows[0].LastAt != at || d.Rows[0].Since != at {
		t.Errorf("%+v, %v", d, err)
	}
}
