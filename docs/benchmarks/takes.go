package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	golimiter "github.com/sethvargo/go-limiter"
	golimitermemory "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	throttledmemory "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// withRedis runs use with a client of a private server, which all contestants share: the same options, the same
// connections.
func withRedis(use func(client *redis.Client) error) error {
	server, err := redistest.Launch()
	if err != nil {
		return err
	}
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	return use(client)
}

func redisContestants(client *redis.Client, q quota) ([]contestant, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	rated := redis_rate.NewLimiter(client)
	rateLimit := redis_rate.Limit{Rate: q.count, Burst: q.count, Period: q.period}
	ululeStore, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	throttledStore, err := throttledredis.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	byThrottled, err := takesOfThrottled(throttledStore, q)
	return []contestant{
		{"limitctl", takesOf(backend, q)},
		{"redis_rate", func(ctx context.Context, key string) (bool, error) {
			r, err := rated.Allow(ctx, key, rateLimit)
			return err == nil && r.Allowed > 0, err
		}},
		{"ulule/limiter", takesOfUlule(ululeStore, q)},
		{"throttled", byThrottled},
	}, err
}

func memoryContestants(q quota) ([]contestant, error) {
	goLimiter, err := golimitermemory.New(&golimitermemory.Config{Tokens: uint64(q.count), Interval: q.period})
	if err != nil {
		return nil, err
	}
	throttledStore, err := throttledmemory.NewCtx(0)
	if err != nil {
		return nil, err
	}
	byThrottled, err := takesOfThrottled(throttledStore, q)
	var buckets sync.Map // x/time/rate has no keys
	return []contestant{
		{"limitctl", takesOf(memorystore.New(), q)},
		{"x/time/rate in a sync.Map", func(_ context.Context, key string) (bool, error) {
			bucket, found := buckets.Load(key)
			if !found {
				bucket, _ = buckets.LoadOrStore(
					key, rate.NewLimiter(rate.Every(q.period/time.Duration(q.count)), q.count))
			}
			return bucket.(*rate.Limiter).Allow(), nil
		}},
		{"go-limiter", takesOfGoLimiter(goLimiter)},
		{"ulule/limiter", takesOfUlule(ululememory.NewStore(), q)},
		{"throttled", byThrottled},
	}, err
}

func takesOf(backend store.Store, q quota) take {
	caller, limit := storecall.New(backend), store.Limit{Count: int64(q.count), Period: q.period}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := caller.Take(ctx, store.Key{Subject: key}, limit, 1)
		return d.Allowed, err
	}
}

func takesOfGoLimiter(s golimiter.Store) take {
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, allowed, err := s.Take(ctx, key)
		return allowed, err
	}
}

func takesOfUlule(s ulule.Store, q quota) take {
	fixed := ulule.New(s, ulule.Rate{Period: q.period, Limit: int64(q.count)})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := fixed.Get(ctx, key)
		return !c.Reached, err
	}
}

func takesOfThrottled(s throttled.GCRAStoreCtx, q quota) (take, error) {
	limiter, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{
		MaxRate: throttled.PerDuration(q.count, q.period), MaxBurst: q.count - 1,
	})
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, err
}

// redisSection measures takes through Redis, over many keys and from one.
func redisSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		contestants, err := redisContestants(client, manyKeysQuota)
		if err != nil {
			return err
		}
		return takesTables(ctx, p, out, "Redis", contestants)
	})
}

// memorySection measures takes in the memory of one process.
func memorySection(ctx context.Context, p plan, out io.Writer) error {
	contestants, err := memoryContestants(manyKeysQuota)
	if err != nil {
		return err
	}
	return takesTables(ctx, p, out, "Memory", contestants)
}

// takesTables measures contestants, and writes the tables.
func takesTables(ctx context.Context, p plan, out io.Writer, title string, contestants []contestant) error {
	keys := subjects(manyKeys)
	var cells []cell
	for _, goroutines := range []int{1, 16, 64, 256} {
		cells = append(cells, cell{fmt.Sprintf("%d callers", goroutines), goroutines, keys})
	}
	cells[0].name = "1 caller"
	progress("%s: filling the keys for each of %d contestants", title, len(contestants))
	measured, err := interleave(ctx, p, contestants, cells)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n### %s: takes a second over %s keys\n", title, thousands(manyKeys))
	table(out, rows(measured, contestants, cells, 0, "", func(its, _ []float64) string {
		return thousands(median(its))
	})...)
	table(out, rows(measured, contestants, cells, 1, contestants[0].name+" ÷ ", func(its, first []float64) string {
		return ratioOf(first, its)
	})...)
	return nil
}
