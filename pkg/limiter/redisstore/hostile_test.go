package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func fivePerMinute(subject string) store.Request {
	return store.Request{Key: store.Key{Subject: subject}, Limit: store.Limit{Count: 5, Period: time.Minute}, Cost: 1}
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
		server.Do("EVAL", "return redis.call('SET', KEYS[1], string.rep('x', 1000000))",
			1, fmt.Sprintf("rl:{c%d}:x", i))
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
	backend := newStore(t, server.Client(),
		redisstore.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now }))
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

// operation is something that a store can be asked for.
type operation func(ctx context.Context, backend *redisstore.Store) error

// deciding is an operation that decides on requests.
func deciding(op store.Op, reqs ...store.Request) operation {
	return func(ctx context.Context, backend *redisstore.Store) error {
		return backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs)))
	}
}

// scanning is an operation that scans. What concerns one key does not end it.
func scanning(q admin.Query, of func(backend *redisstore.Store) admin.Keyspace) operation {
	return func(ctx context.Context, backend *redisstore.Store) error {
		for _, err := range of(backend).Scan(ctx, q) {
			var unsure *layouts.UnsureError
			if err != nil && !errors.Is(err, store.ErrForeign) && !errors.As(err, &unsure) {
				return err
			}
		}
		return nil
	}
}

// operations are those that read answers, by their names. Those of fills make what the others find.
func operations(t *testing.T) (all map[string]operation, fills []string) {
	one, log, other, known := fivePerMinute("a"), fivePerMinute("a"), fivePerMinute("b"), fivePerMinute("a")
	log.Limit = store.Limit{Algorithm: store.SlidingLog, Count: 1000, Period: time.Hour}
	known.Token = "t"
	named := store.Key{Subject: "a", Name: "n"}
	override := store.Override{Subjects: exactly(t, "c"), Effect: store.OverrideBlock, Reason: "r"}
	own := func(backend *redisstore.Store) admin.Keyspace { return backend }
	others := func(backend *redisstore.Store) admin.Keyspace { return backend.OtherLimiters(testLayouts()) }
	return map[string]operation{
		"take two": deciding(store.Take, one, log), "take elsewhere": deciding(store.Take, one, other),
		"peek": deciding(store.Peek, log), "refund": deciding(store.Refund, one), "take with a token": deciding(
			store.Take, known),
		"scan records": scanning(admin.Query{Subjects: everyKey, Records: true, Bytes: true}, own),
		"scan one":     scanning(admin.Query{Subjects: exactly(t, "a"), Records: true}, own),
		"scan others":  scanning(admin.Query{Records: true}, others),
		"delete": func(ctx context.Context, backend *redisstore.Store) error {
			_, _, err := backend.Delete(ctx, admin.Record{Key: named})
			return err
		},
		"adjust": func(ctx context.Context, backend *redisstore.Store) error {
			_, err := backend.Adjust(ctx, admin.Adjustment{Key: named, Limit: one.Limit, Used: 1})
			return err
		},
		"import": func(ctx context.Context, backend *redisstore.Store) error {
			var state store.State
			limit, err := one.Limit.Normalize()
			if err != nil {
				return err
			}
			state.Charge(limit, 1, store.InstantOf(time.Now()))
			_, err = backend.Import(
				ctx, true, admin.Record{Key: named, Value: state.AppendRecord(nil), Expires: time.Now().Add(time.Hour)})
			return err
		},
		"id": func(ctx context.Context, backend *redisstore.Store) error { _, err := backend.StoreID(ctx); return err },
		"new id": func(ctx context.Context, backend *redisstore.Store) error {
			_, err := backend.EnsureStoreID(ctx)
			return err
		},
		"append": func(ctx context.Context, backend *redisstore.Store) error {
			return backend.AppendJournal(ctx, "text")
		},
		"journal": func(ctx context.Context, backend *redisstore.Store) error {
			_, _, err := backend.ReadJournal(ctx, 10)
			return err
		},
		"overrides": func(ctx context.Context, backend *redisstore.Store) error {
			_, _, err := backend.Overrides(ctx)
			return err
		},
		"set": func(ctx context.Context, backend *redisstore.Store) error {
			_, err := backend.SetOverride(ctx, override, time.Hour)
			return err
		},
		"revoke": func(ctx context.Context, backend *redisstore.Store) error {
			_, _, err := backend.RevokeOverride(ctx, "3f9a1c00")
			return err
		},
		"add denials": func(ctx context.Context, backend *redisstore.Store) error {
			return backend.AddDenials(ctx, admin.Denials{Others: 1})
		},
		"denials": func(ctx context.Context, backend *redisstore.Store) error {
			_, err := backend.Denials(ctx, time.Minute)
			return err
		},
	}, []string{"take two", "take elsewhere", "take with a token", "set", "append", "add denials", "new id"}
}

// stagesOf groups commands by what a server is hostile to at once. Which of the commands for scripts
// comes depends on what the server knows already. The greeting is that of every operation.
func stagesOf(commands []string) map[string][]string {
	stages := map[string][]string{}
	for _, command := range commands {
		switch {
		case command == "HELLO" || command == "CLIENT":
		case strings.HasPrefix(command, "EVAL"):
			stages["scripts"] = []string{"EVAL", "EVAL_RO", "EVALSHA", "EVALSHA_RO"}
		default:
			stages[command] = []string{command}
		}
	}
	return stages
}

// What RESP allows comes through to who asked, as the answer to any of its questions: it is taken for an
// answer or refused, in its time and in bounds of memory. What RESP does not allow never comes that far.
func TestEveryOperationBearsAnyAnswer(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	sound := redistest.Start(t)
	sound.Do("SET", "pair:fine", 5)
	own := newStore(t, sound.Client())
	all, fills := operations(t)
	for _, name := range fills {
		if err := all[name](t.Context(), own); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for name, ask := range all {
		server := hostile.Start(t, sound.Addr, hostile.Behaviour{}, "NOTHING")
		if err := asked(t, server, ask); err != nil {
			t.Errorf("%s: with sound answers it ends with %v", name, err)
		}
		for stage, to := range stagesOf(server.Passed()) {
			for _, b := range hostile.Behaviours() {
				// of which bytes that are no answer leave the outcome open
				take := name == "take two" && stage == "scripts"
				if !b.Sound && (!take || b.Greets || b.Late) ||
					isLarge(b) && (!slices.Contains(lists, name) || slices.Contains(numbers, stage)) {
					continue
				}
				server := hostile.Start(t, sound.Addr, b, to...)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := asked(t, server, ask)
				runtime.ReadMemStats(&after)
				made := after.TotalAlloc - before.TotalAlloc
				var bug *panics.Error
				switch {
				case server.Met() == 0:
					t.Errorf("%s, %s, %s: it never came to that: %v", name, stage, b.Name, err)
				case !b.Sound && !errors.Is(err, store.ErrOutcomeUnknown):
					t.Errorf("%s, %s: a take ends with %v", stage, b.Name, err)
				case errors.As(err, &bug),
					err != nil && !errors.Is(err, store.ErrRefused) && !store.IsAway(err) &&
						!errors.Is(err, store.ErrForeign):
					t.Errorf("%s, %s, %s: it ends with %v", name, stage, b.Name, err)
				case err != nil && len(err.Error()) > 2000:
					t.Errorf("%s, %s, %s: it says %.100q… in %d bytes", name, stage, b.Name, err, len(err.Error()))
				case isLarge(b) && made > 64<<20:
					t.Errorf("%s, %s, %s: it made %d MB", name, stage, b.Name, made>>20)
				}
			}
		}
	}
}

// numbers are commands whose answer is a number, or two, of which a client reads no more. The client makes an
// error of any other answer, with the whole answer in it.
var numbers = []string{"DBSIZE", "PTTL", "PEXPIRETIME", "MEMORY", "TIME", "XADD"}

// lists are the operations whose answers are lists of any length.
var lists = []string{"take two", "scan records", "scan others", "journal", "overrides", "denials"}

// isLarge reports whether an answer is as large as one may be.
func isLarge(b hostile.Behaviour) bool { return strings.HasSuffix(b.Name, "of as much as goes") }

// asked asks a server.
func asked(t *testing.T, server *hostile.Server, ask operation) error {
	t.Helper()
	defer server.Stop()
	const inTime = time.Minute // that of an answer that comes, which all are
	backend, err := redisstore.Own(redis.NewClient(
		&redis.Options{Addr: server.Addr, MaxRetries: -1, DisableIdentity: true,
			ReadTimeout: inTime, DialTimeout: inTime, PoolTimeout: inTime}))
	must(t, err)
	defer backend.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*inTime)
	defer cancel()
	if err = ask(ctx, backend); ctx.Err() != nil {
		t.Errorf("it goes on after %s: %v", 2*inTime, err)
	}
	return err
}
