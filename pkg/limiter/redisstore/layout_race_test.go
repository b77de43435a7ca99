package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// countIn is the counter that a record holds, told by bringing it back to a server of its own.
func countIn(t *testing.T, aside *redistest.Server, keys admin.Keyspace, record admin.Record) int64 {
	t.Helper()
	aside.Do("FLUSHALL")
	if _, err := keys.Import(ctx, false, record); err != nil {
		t.Fatal(err)
	}
	part := record.Members[0]
	reply := "0"
	switch {
	case aside.Do("EXISTS", part.StoreKey) == int64(0):
	case part.Field != "":
		reply, _ = aside.Do("HGET", part.StoreKey, part.Field).(string)
	case part.Type == "hash":
		reply, _ = aside.Do("HGET", part.StoreKey, "n").(string)
	default:
		reply, _ = aside.Do("GET", part.StoreKey).(string)
	}
	n, _ := strconv.ParseInt(reply, 10, 64)
	return n
}

// While 64 clients count on one limit it is deleted with a backup again and again. All that was
// counted is in what was deleted, as the backup has it or as it was told, and in what is left.
func TestNothingIsLostWhileALimitOfALayoutIsDeleted(t *testing.T) {
	tier.Full(t, "writers beside a deletion, for seconds")
	t.Parallel()
	for name, write := range map[string]func(p redis.Pipeliner){
		"two strings": func(p redis.Pipeliner) {
			p.Incr(ctx, "pair:{x}")
			p.Set(ctx, "pair:{x}:timer", 1, time.Hour)
		},
		"a hash":  func(p redis.Pipeliner) { p.HIncrBy(ctx, "bucket:x", "n", 1) },
		"a field": func(p redis.Pipeliner) { p.HIncrBy(ctx, "shared:x", "f", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, aside := redistest.Start(t), redistest.Start(t)
			keys, asideKeys := othersAt(t, server), othersAt(t, aside)
			var stop atomic.Bool
			var counted atomic.Int64
			var writing sync.WaitGroup
			for range 64 {
				client := server.Client()
				writing.Go(func() {
					for !stop.Load() {
						if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error { write(p); return nil }); err != nil {
							t.Error(err)
							return
						}
						counted.Add(1)
					}
				})
			}
			var deleted, late int64
			for round := 0; round < 150; round++ {
				records := recordsOf(t, keys)
				if len(records) == 0 {
					round--
					continue
				}
				gone, changed, err := keys.Delete(ctx, records...)
				if err != nil || gone > 1 || len(changed) > gone {
					t.Fatalf("deleted %d, changed %v, %v", gone, changed, err)
				}
				switch {
				case len(changed) > 0:
					deleted += countIn(t, aside, asideKeys, changed[0])
					late++
				case gone > 0:
					deleted += countIn(t, aside, asideKeys, records[0])
				}
			}
			stop.Store(true)
			writing.Wait()
			for _, record := range recordsOf(t, keys) {
				deleted += countIn(t, aside, asideKeys, record)
			}
			if deleted != counted.Load() || late == 0 {
				t.Errorf("%d units were counted, and %d were deleted or are left (%d times told late)", counted.Load(), deleted, late)
			}
		})
	}
}

// While 64 clients count on a limit and others like it, it is set again and again: either all is
// as it was read, or it is tried again, so no count is overwritten unseen.
func TestNothingIsLostWhileALimitOfALayoutIsSet(t *testing.T) {
	tier.Full(t, "writers beside a deletion, for seconds")
	t.Parallel()
	for name, write := range map[string]func(p redis.Pipeliner){
		"two strings": func(p redis.Pipeliner) { p.Incr(ctx, "pair:{x}") },
		"a hash":      func(p redis.Pipeliner) { p.HIncrBy(ctx, "bucket:x", "n", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			keys := othersAt(t, server)
			client := server.Client()
			if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { write(p); return nil }); err != nil {
				t.Fatal(err)
			}
			client.Expire(ctx, "pair:{x}", time.Hour)
			client.Expire(ctx, "bucket:x", time.Hour)
			record := recordsOf(t, keys)[0]
			var stop atomic.Bool
			var counted atomic.Int64
			var writing sync.WaitGroup
			for range 64 {
				client := server.Client()
				writing.Go(func() {
					for !stop.Load() {
						if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { write(p); return nil }); err != nil {
							t.Error(err)
							return
						}
						counted.Add(1)
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			var taken, set, busy int64 = -1, 0, 0 // one was there
			for range 100 {
				a := admin.Adjustment{Key: record.Key, Limit: tenAMinute, Used: 0, Members: record.Members}
				results, err := keys.Adjust(ctx, a)
				switch {
				case err == nil && results[0].Done:
					taken += results[0].Before
					set++
				case err != nil && strings.Contains(err.Error(), "is used so often that it could not be set") && store.IsAway(err):
					busy++
				default:
					t.Fatalf("%+v, %v", results, err)
				}
			}
			stop.Store(true)
			writing.Wait()
			for _, e := range recordsOf(t, keys) {
				entries, _ := scanned(t, keys, admin.Query{})
				taken += entries[e.Key].Used
			}
			if taken != counted.Load() || set == 0 {
				t.Errorf("%d units were counted, and %d were set aside or are left; it was set %d times and busy %d", counted.Load(), taken,
					set, busy)
			}
			if ttl := client.TTL(ctx, record.Members[0].StoreKey).Val(); ttl < 50*time.Minute {
				t.Errorf("it is kept for %s", ttl)
			}
		})
	}
}

// Units are set as asked for, with the TTL as it was. What was there and is not what the caller has
// kept comes back, and limits that share a value are set one after the other.
func TestLimitsOfLayoutsAreSet(t *testing.T) {
	server := redistest.Start(t)
	keys := othersAt(t, server)
	for i := range 300 {
		server.Do("SET", fmt.Sprint("pair:", i), 900, "EX", 1000)
		server.Do("SET", fmt.Sprint("pair:", i, ":timer"), 1, "EX", 1000)
		server.Do("HSET", fmt.Sprint("bucket:", i), "n", 10, "m", 1)
	}
	server.Do("SET", "double:x", "100,200", "EX", 1000)
	server.Do("SADD", "times:x", "a")
	var adjustments []admin.Adjustment
	entries, errs := scanned(t, keys, admin.Query{Records: true})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for key, e := range entries {
		a := admin.Adjustment{Key: key, Limit: tenAMinute, Used: 50, OnlyLess: true, Members: e.Record.Members}
		if key.Name != "times" {
			adjustments = append(adjustments, a)
		} else if _, err := keys.Adjust(ctx, a); err == nil || !strings.Contains(err.Error(), "cannot be set: times does not keep them") {
			t.Errorf("a set of times: %v", err)
		}
	}
	server.Do("INCR", "pair:7")
	server.Do("RPUSH", "list", 1)
	server.Do("RENAME", "list", "pair:8")
	results, err := keys.Adjust(ctx, adjustments...)
	if err == nil || !strings.Contains(err.Error(), `key "pair:8" holds a list`) {
		t.Errorf("it ended with %v", err)
	}
	for i, r := range results {
		key := adjustments[i].Key
		want := admin.Adjusted{Done: true, Before: entries[key].Used, After: min(50, entries[key].Used)}
		late := 0
		switch {
		case key == store.Key{Subject: "7", Name: "pair"}:
			want.Before, late = 901, 2
		case key == store.Key{Subject: "8", Name: "pair"}:
			want = admin.Adjusted{}
		case strings.HasPrefix(key.Name, "double/"): // the first sets both
			want.Before = r.Before
		}
		if r.Done != want.Done || r.Before != want.Before || r.After != want.After || len(r.Record.Members) != late {
			t.Errorf("%v: %+v, want %+v", key, r, want)
		}
	}
	if server.Do("GET", "pair:7") != "50" || server.Do("TTL", "pair:7").(int64) < 900 || server.Do("HGET", "bucket:7", "n") != "10" ||
		server.Do("HGET", "bucket:7", "m") != "1" || server.Do("GET", "double:x") != "50,50" {
		t.Error("it was not set as asked for")
	}
	server.Do("DEL", "pair:9")
	gone := admin.Adjustment{Key: store.Key{Subject: "9", Name: "pair"}, Limit: tenAMinute, Used: 5,
		Members: entries[store.Key{Subject: "9", Name: "pair"}].Record.Members}
	if _, err := keys.Adjust(ctx, gone); err == nil || !strings.Contains(err.Error(), "is gone, so nothing can be set there") {
		t.Errorf("a key that has gone: %v", err)
	}
	gone.OnlyLess = true
	if results, err := keys.Adjust(ctx, gone); err != nil || results[0].Before != 0 || !results[0].Done {
		t.Errorf("a key that has gone, of which nothing is to be taken: %+v, %v", results, err)
	}
}
