package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rings are limits whose state is a ring, which scripts change by range.
var rings = []store.Limit{
	{Algorithm: store.SlidingLog, Count: 20, Period: 6 * time.Second},
	{Algorithm: store.SlidingCounter, Count: 20, Period: 6 * time.Second, Slices: 6},
}

// freezeTime lets the scripts that decide one ring believe that the server's clock says at.
func freezeTime(s *Store, limit store.Limit, at time.Time) {
	reqs := []store.Request{{Limit: limit}}
	frozen := fmt.Sprintf("{ '%d', '%d' }", at.Unix(), at.Nanosecond()/1000)
	for _, slot := range []func() *lanes.Script{
		func() *lanes.Script { made, _ := s.lanes.Scripts.Deciding(store.Take, reqs); return made },
		func() *lanes.Script { made, _ := s.lanes.Scripts.DecidingCharging(reqs); return made },
		func() *lanes.Script { return s.lanes.Scripts.Named(lua.Adjust) },
	} {
		made := slot()
		*made = *lanes.NewScript(strings.Replace(made.Source, "redis.call('TIME')", frozen, 1))
	}
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
				before := own(t, server.Client(), WithClock(func() time.Time { return clock }))
				request := store.Request{Key: key, Limit: limit, Cost: 2, Token: limit.Kind().String() + op, TokenTTL: time.Hour}
				for range 2 {
					if d, err := storecall.New(before).TakeAll(ctx, request); err != nil || !d[0].Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					clock = clock.Add(limit.Period / 3)
					request.Token = ""
				}
				request.Token = limit.Kind().String() + op
				backend := own(t, server.Client())
				freezeTime(backend, limit, clock)
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

// A record that an older limitctl left without its entries and without an expiry counts as unused: a
// peek writes nothing, and what charges replaces it.
func TestABareRingHeals(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	backend := own(t, server.Client())
	l := storecall.New(backend)
	for _, limit := range rings {
		key := store.Key{Subject: "u", Name: limit.Kind().String()}
		storeKey := admin.OwnLayout("rl").StoreKey(key)
		mustTake(t, l, key, limit, 2)
		whole := server.Do("GET", storeKey).(string)
		header := whole[:recordformat.HeaderSize+map[bool]int{false: 11, true: 8}[limit.Kind().HasSlices()]]
		cut := func(expiry ...any) {
			server.Do(append([]any{"SET", storeKey, header}, expiry...)...)
		}
		used := func(want int64) {
			t.Helper()
			d, err := l.Peek(ctx, key, limit, 1)
			if err != nil || d.Used != want {
				t.Errorf("%s: used %d, want %d, %v", limit, d.Used, want, err)
			}
		}
		cut()
		used(0)
		if value, ttl := server.Do("GET", storeKey), server.Do("PTTL", storeKey); value != header || ttl != int64(-1) {
			t.Errorf("%s: a peek wrote %q with PTTL %v", limit, value, ttl)
		}
		for what, charge := range map[string]func() (int64, error){
			"take":   func() (int64, error) { _, err := l.Take(ctx, key, limit, 2); return 2, err },
			"charge": func() (int64, error) { _, err := l.Charge(ctx, key, limit, 2); return 2, err },
			"adjust": func() (int64, error) {
				_, err := backend.Adjust(ctx, admin.Adjustment{Key: key, Limit: limit, Used: 3})
				return 3, err
			},
			"import": func() (int64, error) {
				outcomes, err := backend.Import(ctx, false, admin.Record{Key: key, Value: []byte(whole)})
				if err == nil && outcomes[0] != admin.Imported {
					err = fmt.Errorf("outcome %v", outcomes[0])
				}
				return 2, err
			},
		} {
			cut()
			want, err := charge()
			if err != nil {
				t.Errorf("%s: %s: %v", limit, what, err)
			}
			used(want)
			if ttl, _ := server.Do("PTTL", storeKey).(int64); ttl <= 0 {
				t.Errorf("%s: %s left PTTL %d", limit, what, ttl)
			}
		}
		cut()
		if refunded, err := l.Refund(ctx, key, limit, 1); err != nil || refunded.Used != 0 {
			t.Errorf("%s: refund: %+v, %v", limit, refunded, err)
		}
		// Every other damage stays an error: with an expiry, or with one byte less or more.
		for what, damage := range map[string]func(){
			"an expiry":     func() { cut("PX", 60_000) },
			"one byte less": func() { server.Do("SET", storeKey, header[:len(header)-1]) },
			"one byte more": func() { server.Do("SET", storeKey, header+"x") },
		} {
			damage()
			if _, err := l.Take(ctx, key, limit, 1); !errors.Is(err, store.ErrForeign) {
				t.Errorf("%s: with %s it is taken from: %v", limit, what, err)
			}
		}
		server.Do("DEL", storeKey)
	}
}
