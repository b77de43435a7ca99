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
	client := server.Client()
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
		if _, err := l.Take(ctx, store.Key{Subject: "user:123456"}, limit, 1); err != nil {
			t.Fatal(err)
		}
		key := admin.OwnLayout("rl").StoreKey(store.Key{Subject: "user:123456", Name: limit.DefaultName()})
		if bytes := client.MemoryUsage(ctx, key).Val(); bytes < 1 || bytes > most {
			t.Errorf("%s takes %d bytes, want at most %d", key, bytes, most)
		}
	}
}

func TestBytesPerLoggedUnit(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	server := redistest.Start(t)
	client := server.Client()
	// Each take at an instant of its own, as in real traffic.
	now := time.Unix(1_700_000_000, 0)
	backend, err := redisstore.Own(socketClient(t, server),
		redisstore.WithClock(func() time.Time { now = now.Add(time.Microsecond); return now }))
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(backend)
	limit := store.Limit{Algorithm: store.SlidingLog, Count: store.MaxSlidingLogCount, Period: time.Hour}
	key := admin.OwnLayout("rl").StoreKey(store.Key{Subject: user.Subject, Name: limit.DefaultName()})
	worst := 0.0
	for units := 1; units <= 6000; units++ {
		if _, err := l.Take(ctx, user, limit, 1); err != nil {
			t.Fatal(err)
		}
		if units >= 1000 {
			worst = max(worst, float64(client.MemoryUsage(ctx, key).Val())/float64(units))
		}
	}
	if worst < 10 || worst > 16 {
		t.Errorf("a logged unit takes up to %.2f bytes, want at most 16", worst)
	}
}

// A key in slices takes at most 8 bytes for each, besides what any key does, however
// many are in use; and a decision does not look at each.
func TestBytesAndLooksPerSlice(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	for _, n := range []int64{60, store.MaxSlices} {
		now := time.Unix(1_700_000_000, 0)
		backend := newStore(t, socketClient(t, server), redisstore.WithClock(func() time.Time { return now }))
		l := storecall.New(backend)
		limit := store.Limit{Algorithm: store.SlidingCounter, Count: store.MaxCount, Period: time.Hour, Slices: n}
		plain := limit
		plain.Slices = 0
		usage := func(limit store.Limit) int64 {
			return client.MemoryUsage(ctx, admin.OwnLayout("rl").StoreKey(store.Key{Subject: user.Subject,
				Name: limit.DefaultName()})).Val()
		}
		if _, err := l.Take(ctx, user, plain, 1); err != nil {
			t.Fatal(err)
		}
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
				worst = max(worst, float64(usage(limit)-usage(plain))/float64(n))
			}
			now = now.Add(limit.Period / time.Duration(n))
		}
		before := server.CommandCalls("getrange")
		if d, err := l.Peek(ctx, user, limit, limit.Count-n/2); err != nil || d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("%d slices: %+v, %v; want a denial", n, d, err)
		}
		denied := server.CommandCalls("getrange") - before
		t.Logf("%d slices: %.2f bytes each, %d looks, %d to deny", n, worst, looks, denied)
		if worst > 8 || n == store.MaxSlices && worst < 6 {
			t.Errorf("%d slices take up to %.2f bytes each, want at most 8", n, worst)
		}
		if looks > 20 || denied > 40 {
			t.Errorf("a take in %d slices looks %d times, a denial %d times", n, looks, denied)
		}
	}
}
