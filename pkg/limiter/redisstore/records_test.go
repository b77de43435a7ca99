package redisstore_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func inCalendar(tb testing.TB, text string) store.Limit {
	tb.Helper()
	limit, err := store.ParseLimit(text)
	must(tb, err)
	return limit
}

// lasting returns a limit in a window that does not end within the next hours.
func lasting(tb testing.TB, unit string, now time.Time) store.Limit {
	tb.Helper()
	limit := inCalendar(tb, "fixed-window:100/"+unit+",tz=Europe/Berlin")
	if end, _ := limit.InWindow(store.InstantOf(now)).WindowEnds(); end.Sub(now) < 6*time.Hour {
		limit = inCalendar(tb, "fixed-window:100/"+unit+",tz=Pacific/Honolulu")
	}
	return limit
}

// A caller whose clock is wrong by months is corrected by the server, once, before anything is charged.
func TestTheServersClockSaysTheWindow(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, ReadTimeout: redistest.Patience})
	t.Cleanup(func() { client.Close() })
	var calls atomic.Int64
	backend, err := redisstore.New(client, redisstore.WithBudget(redistest.Patience),
		redisstore.WithBatchObserver(func(n int) { calls.Add(int64(n)) }))
	must(t, err)
	now, err := client.Time(ctx).Result()
	must(t, err)
	limits := []store.Limit{
		lasting(t, "1mo", now), {Count: 100, Period: store.MaxPeriod}, lasting(t, "1y", now), lasting(t, "1d", now),
	}
	var reqs []store.Request
	for _, limit := range limits {
		reqs = append(reqs, store.Request{Key: store.Key{Subject: "user:42", Name: limit.DefaultName()}, Limit: limit,
			Cost: 3})
	}
	decide := func(op store.Op, reqs []store.Request, used int64) {
		t.Helper()
		for _, wrong := range []time.Duration{-800 * 24 * time.Hour, 800 * 24 * time.Hour} {
			backend.SetAhead(wrong)
			decisions := make([]store.Decision, len(reqs))
			if err := backend.Decide(ctx, op, reqs, decisions); err != nil {
				t.Fatalf("%s with a clock that is wrong by %s: %v", op, wrong, err)
			}
			for i, d := range decisions {
				want := used
				if op == store.Take && wrong > 0 {
					want += 3
				}
				end, has := reqs[i].Limit.InWindow(d.At).WindowEnds()
				if !d.Allowed || d.Used != want || has && d.ResetAfter != d.At.Until(store.InstantOf(end)) {
					t.Errorf("%s of %s, wrong by %s: %+v; want %d used until %s", op, reqs[i].Limit, wrong, d, want,
						end)
				}
			}
			before, again := calls.Load(), slices.Clone(reqs)
			again[0].Token = ""
			if err := backend.Decide(ctx, store.Peek, again, decisions); err != nil || calls.Load() != before+1 {
				t.Errorf("corrected, a peek takes %d calls, %v", calls.Load()-before, err)
			}
		}
	}
	decide(store.Take, reqs, 3)
	decide(store.Peek, reqs, 6)
	decide(store.Take, reqs[:1], 9)
	reqs[0].Cost = 12
	decide(store.Adjust, reqs[:1], 12)
	reqs[0].Cost, reqs[0].Token = 3, "once"
	decide(store.Charge, reqs[:1], 15) // the second time it is remembered
	backend.SetAhead(800 * 24 * time.Hour)
	adjusted, err := backend.Adjust(ctx, admin.Adjustment{Key: reqs[0].Key, Limit: limits[0], Used: 5},
		admin.Adjustment{Key: reqs[2].Key, Limit: limits[2], Used: 7})
	if err != nil || adjusted[0].Before != 15 || adjusted[0].After != 5 || adjusted[1].After != 7 {
		t.Errorf("adjusted: %+v, %v", adjusted, err)
	}
}

// Records stay small: ARCHITECTURE.md promises these bytes.
func TestBytesPerKey(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	t.Parallel()
	server := redistest.Start(t)
	// Each take at an instant of its own, as in real traffic.
	now := time.Unix(1_700_000_000, 0)
	l := storecall.New(newStore(t, socketClient(t, server),
		redisstore.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now })))
	limits := []store.Limit{inCalendar(t, "fixed-window:100/1mo,tz=America/Argentina/ComodRivadavia")}
	for _, algorithm := range []store.Algorithm{store.TokenBucket, store.LeakyBucket, store.FixedWindow,
		store.SlidingCounter} {
		limits = append(limits, store.Limit{Algorithm: algorithm, Count: 100, Period: time.Minute})
	}
	for _, limit := range limits {
		most := int64(144)
		if limit.Calendar != nil {
			most += 32 // the key has the name of the zone
		}
		mustTake(t, l, user, limit, 1)
		if bytes := memoryOf(server, limit); bytes < 1 || bytes > most {
			t.Errorf("%s takes %d bytes, want at most %d", limit, bytes, most)
		}
	}
	log := store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount, Period: time.Hour}
	worst := int64(0)
	for units := int64(1); units <= 3000; units++ {
		if mustTake(t, l, user, log, 1); units >= 1000 && units%7 == 0 {
			worst = max(worst, 100*memoryOf(server, log)/units)
		}
	}
	if worst < 1000 || worst > 1600 {
		t.Errorf("a logged unit takes up to %d hundredths of a byte, want at most 1600", worst)
	}
}

// memoryOf is how many bytes the user's limit takes.
func memoryOf(server *redistest.Server, limit store.Limit) int64 {
	key := store.Key{Subject: user.Subject, Name: limit.DefaultName()}
	bytes, _ := server.Do("MEMORY", "USAGE", admin.OwnLayout("rl").StoreKey(key)).(int64)
	return bytes
}

// A key in slices takes at most 8 bytes for each, besides what any key does, however
// many are in use; and a decision does not look at each.
func TestBytesAndLooksPerSlice(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	t.Parallel()
	server := redistest.Start(t)
	const n = store.MaxSlices
	now := time.Unix(1_700_000_000, 0)
	l := storecall.New(newStore(t, socketClient(t, server), redisstore.WithClock(func() time.Time { return now })))
	plain := store.Limit{Algorithm: store.SlidingCounter, Count: store.MaxCount, Period: time.Hour}
	limit := plain
	limit.Slices = n
	mustTake(t, l, user, plain, 1)
	worst, before := int64(0), server.CommandCalls("getrange")
	const takes = 2*n + 10
	for taken := range int64(takes) {
		d, err := l.Take(ctx, user, limit, 1)
		if err != nil || d.Used > min(taken, n)+1 {
			t.Fatalf("take %d: %+v, %v", taken, d, err)
		}
		if taken%20 == 0 {
			worst = max(worst, memoryOf(server, limit)-memoryOf(server, plain))
		}
		now = now.Add(limit.Period / n)
	}
	looks := server.CommandCalls("getrange") - before
	if d, err := l.Peek(ctx, user, limit, limit.Count-n/2); err != nil || d.Allowed || d.RetryAfter <= 0 {
		t.Errorf("%+v, %v; want a denial", d, err)
	}
	denied := server.CommandCalls("getrange") - before - looks
	if worst > 8*n || worst < 6*n {
		t.Errorf("%d slices take up to %d bytes, want at most 8 each", n, worst)
	}
	if looks > 20*takes || denied > 40 {
		t.Errorf("%d takes look %d times, a denial %d times", takes, looks, denied)
	}
}
