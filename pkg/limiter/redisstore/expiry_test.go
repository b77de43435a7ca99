package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// untilUnused returns the millisecond after a record equals an unused one, or 0 if there is no record, and when its
// key expires.
func untilUnused(t *testing.T, client redis.UniversalClient, key store.Key) (want, got int64) {
	t.Helper()
	storeKey := admin.OwnLayout("rl").StoreKey(key)
	record, err := client.Get(t.Context(), storeKey).Bytes()
	if err == redis.Nil {
		return 0, 0
	}
	var state store.State
	must(t, errors.Join(err, state.DecodeRecord(record)))
	return (int64(state.UnusedAt(0)) + 999) / 1000, client.PExpireTime(t.Context(), storeKey).Val().Milliseconds()
}

// Law 6 by the server's clock: a key of any limit expires at the millisecond after its state equals an unused one,
// whether the server knows PXAT or is older. The products behind an expiry go far beyond 53 bits.
func TestLaw06_KeysExpireExactlyWhenUnused(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, old := range []bool{false, true} {
		client := redistest.Start(t).Client()
		if old {
			client.AddHook(changedScripts{from: "redis.REDIS_VERSION_NUM or 0", to: "0"})
		}
		l, kinds, kept := storecall.New(newStore(t, client)), store.Kinds(), 0
		for i := range 150 * len(kinds) {
			kind := kinds[i%len(kinds)]
			limit := store.Limit{Algorithm: kind.Algorithm(), Count: 1 + int64(math.Pow(10, 9*random.Float64()))/2}
			limit.Count = min(limit.Count, kind.Algorithm().MaxCount())
			limit.Period = time.Second + time.Duration(random.Int64N(int64(store.MaxPeriod-time.Second)/1000))*1000
			if kind.HasSlices() {
				limit.Slices, limit.Period = 4, limit.Period/4000*4000
			}
			if kind.InCalendar() {
				limit = lasting(t, "1d", time.Now())
			}
			key := store.Key{Subject: fmt.Sprintf("user:%d", i), Name: kind.String()}
			var began time.Time // the last write
			for n := range 1 + i%3 {
				now := time.Now()
				decide, cost := l.Take, 1+random.Int64N(limit.Count)
				if n > 0 && i%5 == 4 {
					decide, cost = l.Refund, 3
				}
				d, err := decide(t.Context(), key, limit, cost)
				if must(t, err); d.Allowed {
					began = now
				}
			}
			late := int64(0)
			if old { // relative, by the server's cached time, and the server may be held up between the two
				late = 2 + time.Since(began).Milliseconds()
			}
			want, got := untilUnused(t, client, key)
			if want > 0 { // or it has lapsed
				kept++
			}
			if got < want || got > want+late && want > 0 {
				t.Errorf("%s (older server: %v) expires at %v ms, want %d", limit, old, got, want)
			}
		}
		if kept < 100*len(kinds) {
			t.Errorf("only %d keys were kept", kept)
		}
	}
}

// rings are limits whose state is a ring, which scripts change by range.
var rings = []store.Limit{
	{Algorithm: store.SlidingLog, Count: 20, Period: 6 * time.Second},
	{Algorithm: store.SlidingCounter, Count: 20, Period: 6 * time.Second, Slices: 6},
}

// changedScripts is a hook that sends scripts with another text in the place of one.
type changedScripts struct {
	redisserver.PassHook
	from, to string
}

func (h changedScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		words := cmd.Args()
		for _, script := range lua.All() {
			if len(words) > 1 && words[1] == script.SHA() && strings.Contains(script.Source(), h.from) {
				changed := redis.NewCmd(
					ctx, append([]any{"eval", strings.Replace(script.Source(), h.from, h.to, 1)}, words[2:]...)...)
				err := next(ctx, changed)
				cmd.SetErr(err)
				cmd.(interface{ SetVal(any) }).SetVal(changed.Val())
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// frozenTime lets the scripts believe that the server's clock says at.
func frozenTime(at time.Time) redis.Hook {
	return changedScripts{from: "redis.call('TIME')",
		to: fmt.Sprintf("{ '%d', '%d' }", at.Unix(), at.Nanosecond()/1000)}
}

// A server older than 7.2 deletes a key whose expiry passes while a script runs. No write after
// that may make the key anew, with a part of its record and for ever.
func TestARingWhoseExpiryPassesWhileTheScriptRuns(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	for _, limit := range rings {
		for _, op := range []string{"take", "refund", "settle", "adjust"} {
			t.Run(fmt.Sprintf("%s/%s", limit.Kind(), op), func(t *testing.T) {
				key := store.Key{Subject: op, Name: limit.Kind().String()}
				storeKey := admin.OwnLayout("rl").StoreKey(key)
				// The units of two instants, taken so long ago that they are back.
				now, err := server.Client().Time(ctx).Result()
				must(t, err)
				clock := now.Add(-time.Minute)
				before := newStore(t, server.Client(), redisstore.WithClock(func() time.Time { return clock }))
				request := store.Request{Key: key, Limit: limit, Cost: 2, Token: limit.Kind().String() + op,
					TokenTTL: time.Hour}
				for range 2 {
					if d, err := storecall.New(before).TakeAll(ctx, request); err != nil || !d[0].Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					clock = clock.Add(limit.Period / 3)
					request.Token = ""
				}
				request.Token = limit.Kind().String() + op
				client := server.Client()
				client.AddHook(frozenTime(clock))
				backend := newStore(t, client)
				switch op {
				case "take":
					_, err = storecall.New(backend).Take(ctx, key, limit, 1)
				case "refund":
					_, err = storecall.New(backend).Refund(ctx, key, limit, 1)
				case "settle":
					request.Cost = 1
					err = backend.Decide(ctx, store.Settle, []store.Request{request}, make([]store.Decision, 1))
				case "adjust":
					_, err = backend.Adjust(ctx, admin.Adjustment{Key: key, Limit: limit, Used: 3})
				}
				must(t, err)
				if ttl := server.Do("PTTL", storeKey); ttl != int64(-2) {
					t.Errorf("the key is still there: PTTL %v, %q", ttl, server.Do("GET", storeKey))
				}
			})
		}
	}
}
