package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A call asks a limiter for one unit of each of some keys.
type call func(ctx context.Context, keys ...string) error

// limiterOn is a limiter that is made on a client of its own.
type limiterOn struct {
	name string
	on   func(client redis.UniversalClient) (call, error)
}

// drilled are the limiters that drills compare: ours, and the one that most use.
func drilled() []limiterOn {
	return []limiterOn{{"limitctl", limitctlOn}, {"redis_rate", redisRateOn}}
}

func limitctlOn(client redis.UniversalClient) (call, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	l, limit := layers.New(backend), store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}
	return func(ctx context.Context, keys ...string) error {
		if len(keys) == 1 {
			_, err := l.Take(ctx, store.Key{Subject: keys[0]}, limit, 1)
			return err
		}
		reqs := make([]store.Request, len(keys))
		for i, key := range keys {
			reqs[i] = store.Request{Key: store.Key{Subject: key}, Limit: limit, Cost: 1}
		}
		_, err := l.TakeAll(ctx, reqs...)
		return err
	}, nil
}

func redisRateOn(client redis.UniversalClient) (call, error) {
	l := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: manyKeysQuota.count, Burst: manyKeysQuota.count, Period: manyKeysQuota.period}
	return func(ctx context.Context, keys ...string) error {
		for _, key := range keys { // it knows no calls for several
			if _, err := l.Allow(ctx, key, limit); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// errPanicked is a panic that a caller recovered, as a web server does.
var errPanicked = errors.New("panicked")

// recovering is call with its panics as errors.
func (c call) recovering(ctx context.Context, keys []string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v", errPanicked, panicked)
		}
	}()
	return c(ctx, keys...)
}

// outcome is what callers saw.
type outcome struct {
	answered, failed int
	// overrun is by how much a call outlived its deadline at most.
	overrun time.Duration
}

// crew is callers each of which calls again when its last call has ended.
type crew struct {
	callers  int
	deadline time.Duration // of a call
	// keys are those of a caller's n-th call. What became of a call counts if it is to.
	keys func(caller, n int) (keys []string, counts bool)
}

// work has the crew call for a while.
func (c crew) work(call call, length time.Duration) outcome {
	var mu sync.Mutex
	var all outcome
	var callers sync.WaitGroup
	var stop atomic.Bool
	timer := time.AfterFunc(length, func() { stop.Store(true) })
	defer timer.Stop()
	for caller := range c.callers {
		callers.Go(func() {
			var own outcome
			for n := 0; !stop.Load(); n++ {
				keys, counts := c.keys(caller, n)
				overrun, err := within(call, time.Now().Add(c.deadline), keys)
				own.overrun = max(own.overrun, overrun)
				switch {
				case !counts:
				case err != nil:
					own.failed++
				default:
					own.answered++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.answered += own.answered
			all.failed += own.failed
			all.overrun = max(all.overrun, own.overrun)
		})
	}
	callers.Wait()
	return all
}

// within makes a call with a deadline, and says by how much it outlived it.
func within(call call, deadline time.Time, keys []string) (overrun time.Duration, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err = call.recovering(ctx, keys)
	return max(0, time.Since(deadline)), err
}

// leaveTogether has that many callers wait, each for one call, and leave at one deadline.
func leaveTogether(call call, callers int, patience time.Duration, keys func(caller int) []string) (all outcome) {
	var mu sync.Mutex
	var waiting sync.WaitGroup
	deadline := time.Now().Add(patience)
	for caller := range callers {
		waiting.Go(func() {
			overrun, err := within(call, deadline, keys(caller))
			mu.Lock()
			defer mu.Unlock()
			all.overrun = max(all.overrun, overrun)
			if err != nil {
				all.failed++
			} else {
				all.answered++
			}
		})
	}
	waiting.Wait()
	return all
}
