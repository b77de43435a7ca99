package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
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
		contestants = slices.DeleteFunc(contestants, func(c contestant) bool { // it gives up when others are faster
			return c.name == "throttled"
		})
		backend, err := redisstore.New(client)
		if err != nil {
			return err
		}
		leased := storecall.New(layers.WithLeases(backend, layers.Leases{}))
		limit := store.Limit{Count: int64(hotKeyQuota.count), Period: hotKeyQuota.period}
		contestants = append([]contestant{{"limitctl, leases", takesOf(leased, limit)}}, contestants...)
		cells := []cell{
			{"64 goroutines", 64, subjects(1), client},
			{"256 goroutines", 256, subjects(1), client},
		}
		return takesTables(ctx, p, out, "from one hot key", contestants, cells)
	})
}

// denialsSection measures takes of many goroutines from one key with nothing remaining.
func denialsSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		scarce := quota{count: 1, period: 24 * time.Hour}
		contestants, err := redisContestants(client, scarce)
		if err != nil {
			return err
		}
		backend, err := redisstore.New(client)
		if err != nil {
			return err
		}
		remembering := storecall.New(layers.DenialMemory{MaxStale: time.Second}.Wrap(backend))
		limit := store.Limit{Count: int64(scarce.count), Period: scarce.period}
		contestants = append([]contestant{{"limitctl, denial memory", takesOf(remembering, limit)}}, contestants...)
		for i, c := range contestants { // the denials are measured
			take := c.take()
			if _, err := take(ctx, "user:0"); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			contestants[i].take = shared(func(ctx context.Context, key string) (bool, error) {
				allowed, err := take(ctx, key)
				return !allowed, err
			})
		}
		return takesTables(ctx, p, out, "that are denied, from one key", contestants, []cell{{"256 goroutines", 256, subjects(1), client}})
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

// latencyGoroutines is the number of callers for measuring latency.
const latencyGoroutines = 256

// latencySection measures the latency of takes with and without merging, at 70 % of the highest rate without it.
func latencySection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		merging, err := redisstore.Own(client)
		if err != nil {
			return err
		}
		together := storecall.New(merging)
		// A store merges concurrent calls. With a store for every two callers, nobody ever waits for another.
		alone := make([]*storecall.Caller, latencyGoroutines/2)
		for i := range alone {
			backend, err := redisstore.New(client)
			if err != nil {
				return err
			}
			alone[i] = storecall.New(backend)
		}
		limit := store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}
		takes := []func(g int) *storecall.Caller{
			func(int) *storecall.Caller { return together },
			func(g int) *storecall.Caller { return alone[g/2] },
		}
		next := 0
		apart := contestant{"without merging", func() take {
			l := alone[next/2%len(alone)]
			next++
			return func(ctx context.Context, key string) (bool, error) {
				d, err := l.Take(ctx, store.Key{Subject: key}, limit, 1)
				return d.Allowed, err
			}
		}}
		keys := subjects(manyKeys)
		if err := fill(ctx, contestant{"limitctl", func() take {
			return func(ctx context.Context, key string) (bool, error) {
				d, err := together.Take(ctx, store.Key{Subject: key}, limit, 1)
				return d.Allowed, err
			}
		}}, keys); err != nil {
			return err
		}
		names := []string{"merging", "without merging"}
		p50, p99, cpu := make([][]float64, 2), make([][]float64, 2), make([][]float64, 2)
		for round := range p.rounds {
			progress("latency: round %d of %d", round+1, p.rounds)
			full, err := measure(ctx, serially(apart), cell{goroutines: latencyGoroutines, keys: keys}, p.duration)
			if err != nil {
				return err
			}
			for i, take := range takes {
				own := ownCPU()
				durations, err := atRate(ctx, 0.7*full.perSecond, 5*p.duration, func(ctx context.Context, g, n int) error {
					d, err := take(g).Take(ctx, store.Key{Subject: keys[(g*len(keys)/latencyGoroutines+n)%len(keys)]}, limit, 1)
					if err == nil && !d.Allowed {
						err = fmt.Errorf("a take was denied")
					}
					return err
				})
				if err != nil {
					return err
				}
				own = ownCPU() - own
				at := func(share float64) float64 {
					return float64(durations[int(share*float64(len(durations)-1))].Microseconds())
				}
				p50[i], p99[i] = append(p50[i], at(0.5)), append(p99[i], at(0.99))
				cpu[i] = append(cpu[i], float64(own.Nanoseconds())/1000/float64(len(durations)))
			}
		}
		fmt.Fprintf(out, "\n### Redis: how long a take lasts, at 70 %% of what goes without merging\n")
		micro := func(v float64) string { return thousands(v) + " µs" }
		rows := [][]string{{"", "p50", "p99", "p99 ÷ that without merging", "client CPU"}}
		for i, name := range names {
			rows = append(rows, []string{name, spread(p50[i], micro), spread(p99[i], micro), ratioOf(p99[i], p99[1]),
				fmt.Sprintf("%.1f µs", median(cpu[i]))})
		}
		table(out, rows...)
		return nil
	})
}

// serially lets only one goroutine at a time get its take from c.
func serially(c contestant) contestant {
	var mu sync.Mutex
	return contestant{c.name, func() take {
		mu.Lock()
		defer mu.Unlock()
		return c.take()
	}}
}

// atRate calls do from many goroutines, at random times with that rate, and returns the durations of the calls,
// sorted.
func atRate(ctx context.Context, rate float64, duration time.Duration,
	do func(ctx context.Context, g, n int) error) ([]time.Duration, error) {
	lasted := make([][]time.Duration, latencyGoroutines)
	begin := time.Now()
	err := parallel(latencyGoroutines, func(g int) error {
		random := rand.New(rand.NewPCG(5, uint64(g)))
		due := 0.0 // seconds since begin
		for n := 0; ; n++ {
			due += random.ExpFloat64() * latencyGoroutines / rate
			if due > duration.Seconds() {
				return nil
			}
			time.Sleep(time.Until(begin.Add(time.Duration(due * float64(time.Second)))))
			sent := time.Now()
			if err := cmp.Or(do(ctx, g, n), ctx.Err()); err != nil {
				return err
			}
			lasted[g] = append(lasted[g], time.Since(sent))
		}
	})
	all := slices.Concat(lasted...)
	slices.Sort(all)
	return all, err
}
