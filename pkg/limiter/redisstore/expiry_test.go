package redisstore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// lastingDay returns a limit in a day that does not end within the next hours.
func lastingDay(t *testing.T) store.Limit {
	t.Helper()
	zone := "UTC"
	if time.Now().UTC().Hour() >= 18 {
		zone = "Pacific/Honolulu"
	}
	limit, err := store.ParseLimit("fixed-window:1000/1d,tz=" + zone)
	if err == nil {
		limit, err = limit.Normalize()
	}
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// Law 6 by the server's clock: a key expires at the millisecond after its state
// equals an unused one, whether the server knows PXAT or is older.
func TestLaw06_KeysExpireExactlyWhenUnused(t *testing.T) {
	ctx := context.Background()
	for _, old := range []bool{false, true} {
		server := redistest.Start(t)
		backend := own(t, server.Client())
		if old {
			for _, kind := range store.Kinds() {
				for _, op := range []store.Op{store.Take, store.Refund} {
					limit := store.Limit{Algorithm: kind.Algorithm()}
					if kind.HasSlices() {
						limit.Slices = 3
					}
					if kind.InCalendar() {
						limit = storetest.LimitOf(kind, 1000, 0)
					}
					made, _ := backend.lanes.Scripts.Deciding(op, []store.Request{{Limit: limit}})
					*made = *lanes.NewScript(strings.Replace(made.Source, "redis.REDIS_VERSION_NUM or 0", "0", 1))
				}
			}
		}
		for _, kind := range store.Kinds() {
			for i := range 20 {
				limit := store.Limit{Algorithm: kind.Algorithm(), Count: 1000, Period: 61*time.Hour + 789*time.Microsecond}
				if kind.HasSlices() {
					limit.Period, limit.Slices = limit.Period-time.Microsecond, 4
				}
				if kind.InCalendar() {
					limit = lastingDay(t)
				}
				key := store.Key{Subject: fmt.Sprintf("user:%d", i), Name: kind.String()}
				var began time.Time // the last write
				for range 1 + i%3 {
					began = time.Now()
					if _, err := storecall.New(backend).Take(ctx, key, limit, int64(1+7*i)); err != nil {
						t.Fatal(err)
					}
				}
				if i%5 == 4 {
					began = time.Now()
					if _, err := storecall.New(backend).Refund(ctx, key, limit, 3); err != nil {
						t.Fatal(err)
					}
				}
				took := time.Since(began)
				storeKey := admin.OwnLayout("rl").StoreKey(key)
				record, err := backend.lanes.Client.Get(ctx, storeKey).Bytes()
				if err != nil {
					t.Fatal(err)
				}
				var state store.State
				if err := state.DecodeRecord(record); err != nil {
					t.Fatal(err)
				}
				want := (int64(state.UnusedAt(0)) + 999) / 1000
				got, _ := server.Do("PEXPIRETIME", storeKey).(int64)
				late := int64(0)
				if old { // relative, by the server's cached time, and the server may be held up between the two
					late = 2 + took.Milliseconds()
				}
				if got < want || got > want+late {
					t.Errorf("%s (older server: %v) expires at %v ms, want %d: unused at %d µs", kind, old, got, want, state.UnusedAt(0))
				}
			}
		}
	}
}

// The same for limits of all sizes: the products behind an expiry go far beyond
// 53 bits.
func TestLaw06_KeysOfAnyLimitExpireWhenUnused(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	client := server.Client()
	backend := own(t, client)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		limit := store.Limit{Algorithm: store.Algorithms()[i%len(store.Algorithms())]}
		limit.Count = 1 + int64(math.Pow(10, 9*random.Float64()))/2
		if limit.Algorithm == store.SlidingLog {
			limit.Count = min(limit.Count, store.MaxSlidingLogCount)
		}
		limit.Period = time.Second + time.Duration(random.Int64N(int64(store.MaxPeriod-time.Second)/1000))*time.Microsecond
		key := store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "limit"}
		if _, err := storecall.New(backend).Take(ctx, key, limit, 1+random.Int64N(limit.Count)); err != nil {
			t.Fatal(err)
		}
		storeKey := admin.OwnLayout("rl").StoreKey(key)
		record, err := client.Get(ctx, storeKey).Bytes()
		if err == redis.Nil {
			continue // so little that it has lapsed
		}
		var state store.State
		if err := state.DecodeRecord(record); err != nil {
			t.Fatal(err)
		}
		got := client.PExpireTime(ctx, storeKey).Val().Milliseconds()
		if want := (int64(state.UnusedAt(0)) + 999) / 1000; got != want && got > 0 {
			t.Errorf("%s expires at %d ms, want %d", limit, got, want)
		}
	}
}
