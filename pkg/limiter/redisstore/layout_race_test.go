package redisstore_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
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
		"a hash": func(p redis.Pipeliner) { p.HIncrBy(ctx, "bucket:x", "n", 1) },
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
			for round := 0; round < 60; round++ {
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
