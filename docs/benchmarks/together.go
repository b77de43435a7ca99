package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hotKeyQuota is never reached on one key in a run.
var hotKeyQuota = quota{count: 1_000_000_000, period: time.Minute}

// hotKeySection measures takes of many goroutines from one key.
func hotKeySection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		contestants, err := redisContestants(client, hotKeyQuota)
		if err != nil {
			return err
		}
		backend, err := redisstore.New(client)
		if err != nil {
			return err
		}
		leased := storecall.New(layers.Stack(backend, layers.Layers{Leases: &store.Leases{}}))
		limit := store.Limit{Count: int64(hotKeyQuota.count), Period: hotKeyQuota.period}
		contestants = append([]contestant{{"limitctl, leases", takesOf(leased, limit)}}, contestants...)
		cells := []cell{
			{"64 goroutines", 64, subjects(1), client},
			{"256 goroutines", 256, subjects(1), client},
		}
		return takesTables(ctx, p, out, "from one hot key", contestants, cells)
	})
}

// limitsSection measures takes under three limits of one subject.
func limitsSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		backend, err := redisstore.Own(client)
		if err != nil {
			return err
		}
		ours, theirs := storecall.New(backend), redis_rate.NewLimiter(client)
		periods := []time.Duration{28 * 24 * time.Hour, 29 * 24 * time.Hour, 30 * 24 * time.Hour}
		contestants := []contestant{
			{"limitctl, one call", shared(func(ctx context.Context, key string) (bool, error) {
				var requests [3]store.Request
				for i, period := range periods {
					requests[i] = store.Request{Key: store.Key{Subject: key}, Cost: 1,
						Limit: store.Limit{Count: int64(manyKeysQuota.count), Period: period}}
				}
				decisions, err := ours.TakeAll(ctx, requests[:]...)
				return store.AllAllowed(decisions), err
			})},
			{"redis_rate, three calls", shared(func(ctx context.Context, key string) (bool, error) {
				for i, period := range periods {
					limit := redis_rate.Limit{Rate: manyKeysQuota.count, Burst: manyKeysQuota.count, Period: period}
					r, err := theirs.Allow(ctx, fmt.Sprint(key, ":", i), limit)
					if err != nil || r.Allowed == 0 {
						return false, err
					}
				}
				return true, nil
			})},
		}
		keys := subjects(manyKeys / len(periods))
		cells := []cell{{"1 goroutine", 1, keys, client}, {"64 goroutines", 64, keys, client}}
		return takesTables(ctx, p, out, "under three limits of one subject", contestants, cells)
	})
}
