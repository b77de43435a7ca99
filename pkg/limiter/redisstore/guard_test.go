package redisstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hostileTimeout is how long the clients here wait.
const hostileTimeout = 300 * time.Millisecond

// plainClient is a client as a service makes it.
func plainClient(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: hostileTimeout, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

func fivePerMinute(subject string) store.Request {
	return store.Request{Key: store.Key{Subject: subject}, Limit: store.Limit{Count: 5, Period: time.Minute}, Cost: 1}
}

// Bytes that are no answer leave open whether a take was charged, and are not taken for one.
func TestNoiseForATakeLeavesItsOutcomeOpen(t *testing.T) {
	tier.Full(t, "hostile servers")
	sound := redistest.Start(t).Addr
	var asking sync.WaitGroup
	free := make(chan struct{}, 8)
	for _, b := range hostile.Behaviours() {
		if b.Greets || b.Sound {
			continue
		}
		free <- struct{}{}
		client := plainClient(t, hostile.Start(t, sound, b, "EVALSHA", "EVAL").Addr)
		backend := newStore(t, client)
		asking.Go(func() {
			defer func() { <-free }()
			// A busy machine may be late in connecting: then nothing was sent, and the outcome is known.
			for t.Context().Err() == nil && client.Ping(t.Context()).Err() != nil {
			}
			err := backend.Decide(ctx, store.Take, []store.Request{fivePerMinute("a")}, make([]store.Decision, 1))
			if !errors.Is(err, store.ErrOutcomeUnknown) {
				t.Errorf("%s: a take ends with %v", b.Name, err)
			}
		})
	}
	asking.Wait()
}

// An answer that is too long ends a connection of the store's own client, and of no other.
func TestOnlyAnOwnClientIsBounded(t *testing.T) {
	addr := hostile.Start(t, "", hostile.Behaviour{Answer: func(c *hostile.Client) bool {
		_, err := c.Write([]byte("$30000000\r\n" + strings.Repeat("x", 30000000) + "\r\n"))
		return err == nil
	}}).Addr
	for name, c := range map[string]struct {
		make    func(redis.UniversalClient, ...redisstore.Option) (*redisstore.Store, error)
		refused bool
	}{"its own": {redisstore.Own, true}, "the application's": {redisstore.New, false}} {
		client := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, ReadTimeout: time.Minute})
		defer client.Close()
		if _, err := c.make(client); err != nil {
			t.Fatal(err)
		}
		err := client.Get(ctx, "x").Err()
		if refused := err != nil && strings.Contains(err.Error(), "announces a text of 30000000 bytes"); refused != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A selected key's panic is the caller's own, in the goroutine of a scan.
func TestAPanicInAScanIsItsError(t *testing.T) {
	client := plainClient(t, redistest.Start(t).Addr)
	backend := newStore(t, client)
	decideOne(t, backend, store.Take, fivePerMinute("a"))
	var last error
	for _, err := range backend.Scan(ctx, admin.Query{Subjects: everyKey, Match: func(store.Key) bool { panic("no") }}) {
		last = err
	}
	if !errors.Is(last, store.ErrRefused) || !strings.Contains(last.Error(), "internal error: no") {
		t.Errorf("error %v", last)
	}
}

// What strangers put under keys is looked at by its beginning.
func TestLargeValuesAreNotHeld(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	hourly := store.Limit{Algorithm: store.SlidingLog, Count: 100_000, Period: time.Hour}
	log := store.Request{Key: store.Key{Subject: "log"}, Limit: hourly, Cost: 1}
	for range 200 {
		decideOne(t, backend, store.Take, log)
	}
	const size = 64 << 20
	server.Do("SET", "rl:{a}:x", "RL")
	server.Do("SETRANGE", "rl:{a}:x", size, "x")
	server.Do("EVAL", `redis.call('SET', KEYS[2], redis.call('GETRANGE', KEYS[1], 0, 25))
		return redis.call('SETRANGE', KEYS[2], ARGV[1], 'x')`, 2, "rl:{log}:sliding-log/1h", "rl:{b}:x", size)
	for i := range 100 {
		server.Do("EVAL", "return redis.call('SET', KEYS[1], string.rep('x', 1000000))", 1, fmt.Sprintf("rl:{c%d}:x", i))
	}
	for _, records := range []bool{false, true} {
		held := heldBy(func() {
			foreign, sound := 0, 0
			for entry, err := range backend.Scan(ctx, admin.Query{Subjects: everyKey, Records: records}) {
				switch {
				case errors.Is(err, store.ErrForeign):
					foreign++
				case err != nil:
					t.Errorf("records %v: %v", records, err)
				case entry.Key.Subject == "log" && (entry.Record.Value != nil) == records:
					sound++
				}
			}
			if foreign != 102 || sound != 1 {
				t.Errorf("records %v: %d are foreign and %d sound", records, foreign, sound)
			}
		})
		if held > 32<<20 {
			t.Errorf("records %v: the scan took %d MB", records, held>>20)
		}
	}
}

// heldBy returns how many bytes f had at most of what it made.
func heldBy(f func()) uint64 {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A reset with a backup reads many large logs, of which few are held at a time.
func TestManyLargeLogsAreExportedAFewAtATime(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	server := redistest.Start(t)
	now := time.Now()
	backend := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now }))
	const logs, size = 40, 100_000
	limit := store.Limit{Algorithm: store.SlidingLog, Count: size, Period: time.Hour}
	for range 100 {
		decideOne(t, backend, store.Take, store.Request{Key: store.Key{Subject: "0"}, Limit: limit, Cost: 1})
	}
	// The ring of the others has much room, so that their records are large.
	for i := range logs {
		server.Do("EVAL", `redis.call('SET', KEYS[2], redis.call('GET', KEYS[1]), 'PX', 3600000)
			return redis.call('SETRANGE', KEYS[2], ARGV[1], '\0')`, 2,
			"rl:{0}:sliding-log/1h", fmt.Sprintf("rl:{%d}:sliding-log/1h", i+1), 37+10*size-1)
	}
	var exported []admin.Record
	before := heap()
	for entry, err := range backend.Scan(ctx, admin.Query{Subjects: everyKey, Records: true}) {
		must(t, err)
		if exported = append(exported, entry.Record); len(exported) == 1 {
			if held := heap() - before; held > logs*size*10/2 {
				t.Errorf("%d MB are held when the first of %d MB comes", held>>20, logs*size*10>>20)
			}
		}
	}
	for i := range logs { // they are used meanwhile, and so all come back
		server.Do("SETRANGE", fmt.Sprintf("rl:{%d}:sliding-log/1h", i+1), 37+10*size-1, "x")
	}
	deleted, changed, err := backend.Delete(ctx, exported...)
	if deleted != logs+1 || len(changed) != logs || err != nil || len(changed[0].Value) != 37+10*size {
		t.Errorf("deleted %d, %d changed, %v", deleted, len(changed), err)
	}
}

// heap returns how many bytes are held.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
