package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	sethvargo "github.com/sethvargo/go-limiter/memorystore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// oneKeyQuota refills faster than one key can be taken from, so that it is never reached.
var oneKeyQuota = quota{count: 1_000_000_000, period: time.Minute}

func memoryContestants(q quota) ([]contestant, error) {
	// Interval and SweepMinTTL as long as the quota's, otherwise keys would be forgotten too early.
	fixed, err := sethvargo.New(&sethvargo.Config{Tokens: uint64(q.count), Interval: q.period, SweepMinTTL: q.period})
	if err != nil {
		return nil, err
	}
	ululeLimiter := ulule.New(ululememory.NewStore(), ulule.Rate{Period: q.period, Limit: int64(q.count)})
	return []contestant{
		{"limitctl, `Limiter.Take`", shared(limitctlTake(q))},
		{"limitctl, `Store.Decide`", limitctlDecide(q)},
		{"x/time/rate in a map under a mutex", shared(rateInMap(q))},
		{"x/time/rate in a sync.Map", shared(rateInSyncMap(q))},
		{"sethvargo/go-limiter", shared(func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := fixed.Take(ctx, key)
			return ok, err
		})},
		{"ulule/limiter", shared(func(ctx context.Context, key string) (bool, error) {
			c, err := ululeLimiter.Get(ctx, key)
			return !c.Reached, err
		})},
	}, nil
}

func limitctlTake(q quota) take {
	l := storecall.New(memorystore.New())
	limit := store.Limit{Count: int64(q.count), Period: q.period}
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Take(ctx, store.Key{Subject: key}, limit, 1)
		return d.Allowed, err
	}
}

// limitctlDecide calls the store without a Limiter: the caller keeps the slices.
func limitctlDecide(q quota) func() take {
	backend := memorystore.New()
	limit := store.Limit{Count: int64(q.count), Period: q.period}
	return func() take {
		reqs, decisions := make([]store.Request, 1), make([]store.Decision, 1)
		return func(ctx context.Context, key string) (bool, error) {
			reqs[0] = store.Request{Key: store.Key{Subject: key}, Limit: limit, Cost: 1}
			err := backend.Decide(ctx, store.Take, reqs, decisions)
			return decisions[0].Allowed, err
		}
	}
}

func newRate(q quota) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(q.count)/q.period.Seconds()), q.count)
}

// x/time/rate limits one thing; these two are what services usually write around it. Neither ever forgets a key.

func rateInMap(q quota) take {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	return func(_ context.Context, key string) (bool, error) {
		mu.Lock()
		l, ok := limiters[key]
		if !ok {
			l = newRate(q)
			limiters[key] = l
		}
		mu.Unlock()
		return l.Allow(), nil
	}
}

func rateInSyncMap(q quota) take {
	var limiters sync.Map
	return func(_ context.Context, key string) (bool, error) {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, newRate(q))
		}
		return l.(*rate.Limiter).Allow(), nil
	}
}

func memorySection(ctx context.Context, p plan, out io.Writer) error {
	groups := []struct {
		quota quota
		keys  []string
		name  string
	}{
		{oneKeyQuota, subjects(1), "1 key"},
		{manyKeysQuota, subjects(manyKeys), thousands(manyKeys) + " keys"},
	}
	var contestants []contestant
	var cells []cell
	var measured results
	for _, group := range groups {
		fresh, err := memoryContestants(group.quota)
		if err != nil {
			return err
		}
		contestants = fresh
		own := []cell{
			{name: group.name + ", 1 goroutine", goroutines: 1, keys: group.keys},
			{name: group.name + ", 2 goroutines", goroutines: 2, keys: group.keys},
		}
		progress("memory: %s for each of %d contestants", group.name, len(contestants))
		part, err := interleave(ctx, p, contestants, own)
		if err != nil {
			return err
		}
		cells = append(cells, own...)
		measured = measured.beside(part)
	}
	fmt.Fprint(out, "\n### In memory: nanoseconds per take\n")
	table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.nanoseconds }, decimals)...)
	fmt.Fprint(out, "\n### In memory: allocations per take\n")
	table(out, medians(measured, contestants, cells, func(s sample) float64 { return s.allocations }, decimals)...)
	return nil
}
