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

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A call takes one unit of each of some keys from a limiter.
type call func(ctx context.Context, keys ...string) error

// limiterOn is a limiter that is made with its own client.
type limiterOn struct {
	name string
	on   func(client redis.UniversalClient) (call, error)
}

// drilled are the limiters that drills compare: ours, and the most used one.
func drilled() []limiterOn {
	return []limiterOn{{"limitctl", limitctlOn}, {"redis_rate", redisRateOn}}
}

func limitctlOn(client redis.UniversalClient) (call, error) {
	backend, err := redisstore.Own(client)
	if err != nil {
		return nil, err
	}
	l, limit := storecall.New(backend), store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}
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
		for _, key := range keys { // it has no call for several keys
			if _, err := l.Allow(ctx, key, limit); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// errPanicked is a recovered panic, as in a web server.
var errPanicked = errors.New("panicked")

// recovering is call with panics as errors.
func (c call) recovering(ctx context.Context, keys []string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v", errPanicked, panicked)
		}
	}()
	return c(ctx, keys...)
}

// outcome counts the results of calls.
type outcome struct {
	answered, failed int
	// overrun is the longest time by which a call exceeded its deadline.
	overrun time.Duration
}

// crew is callers that each call again when their last call has ended.
type crew struct {
	callers  int
	deadline time.Duration // of a call
	// keys returns the keys of call n of a caller, and whether its result counts.
	keys func(caller, n int) (keys []string, counts bool)
}

// work makes the crew call for a while.
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

// within makes a call with a deadline, and returns by how much it exceeded it.
func within(call call, deadline time.Time, keys []string) (overrun time.Duration, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	err = call.recovering(ctx, keys)
	return max(0, time.Since(deadline)), err
}

// leaveTogether makes that many callers wait, each for one call, and leave at one deadline.
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
