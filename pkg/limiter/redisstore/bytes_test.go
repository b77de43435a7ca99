package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Records stay small: docs/design/keys-and-records.md promises these bytes.
func TestBytesPerKey(t *testing.T) {
	server := redistest.Start(t)
	l := connected(t, server, redis.Options{})
	limits := []store.Limit{inCalendar(t, "fixed-window:100/1mo,tz=America/Argentina/ComodRivadavia")}
	for _, algorithm := range []store.Algorithm{store.TokenBucket, store.LeakyBucket, store.FixedWindow, store.SlidingCounter} {
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
}

func TestBytesPerLoggedUnit(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	t.Parallel()
	server := redistest.Start(t)
	// Each take at an instant of its own, as in real traffic.
	now := time.Unix(1_700_000_000, 0)
	l := storecall.New(newStore(t, socketClient(t, server),
		redisstore.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now })))
	limit := store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount, Period: time.Hour}
	worst := 0.0
	for units := 1; units <= 3000; units++ {
		mustTake(t, l, user, limit, 1)
		if units >= 1000 && units%7 == 0 {
			worst = max(worst, float64(memoryOf(server, limit))/float64(units))
		}
	}
	if worst < 10 || worst > 16 {
		t.Errorf("a logged unit takes up to %.2f bytes, want at most 16", worst)
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
	for _, n := range []int64{60, store.MaxSlices} {
		now := time.Unix(1_700_000_000, 0)
		backend := newStore(t, socketClient(t, server), redisstore.WithClock(func() time.Time { return now }))
		l := storecall.New(backend)
		limit := store.Limit{Algorithm: store.SlidingCounter, Count: store.MaxCount, Period: time.Hour, Slices: n}
		plain := limit
		plain.Slices = 0
		mustTake(t, l, user, plain, 1)
		looks, worst := int64(0), 0.0
		for taken := range 2*n + 10 {
			before, measured := 0, taken%20 == 0 || taken > 2*n-20
			if measured {
				before = server.CommandCalls("getrange")
			}
			d, err := l.Take(ctx, user, limit, 1)
			if err != nil || d.Used > min(taken, n)+1 {
				t.Fatalf("take %d in %d slices: %+v, %v", taken, n, d, err)
			}
			if measured {
				looks = max(looks, int64(server.CommandCalls("getrange")-before))
				worst = max(worst, float64(memoryOf(server, limit)-memoryOf(server, plain))/float64(n))
			}
			now = now.Add(limit.Period / time.Duration(n))
		}
		before := server.CommandCalls("getrange")
		if d, err := l.Peek(ctx, user, limit, limit.Count-n/2); err != nil || d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("%d slices: %+v, %v; want a denial", n, d, err)
		}
		denied := server.CommandCalls("getrange") - before
		if worst > 8 || n == store.MaxSlices && worst < 6 {
			t.Errorf("%d slices take up to %.2f bytes each, want at most 8", n, worst)
		}
		if looks > 20 || denied > 40 {
			t.Errorf("a take in %d slices looks %d times, a denial %d times", n, looks, denied)
		}
	}
}
