package naive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/naive"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

var ctx = context.Background()

// hook is called before and after each command; both functions may be nil.
type hook struct {
	before, after func(cmd redis.Cmder)
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.before != nil {
			h.before(cmd)
		}
		err := next(ctx, cmd)
		if h.after != nil {
			h.after(cmd)
		}
		return err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// admitted lets all callers take one unit concurrently and returns how many are allowed.
func admitted(t *testing.T, backend store.Store, callers int, req store.Request) int {
	t.Helper()
	decisions := make([][1]store.Decision, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			if err := backend.Decide(ctx, store.Take, []store.Request{req}, decisions[n][:]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	allowed := 0
	for n := range decisions {
		if decisions[n][0].Allowed {
			allowed++
		}
	}
	return allowed
}

// All callers read before any writes, which can happen by chance: all are allowed. The real store allows what the
// limit says.
func TestTheRace(t *testing.T) {
	const callers = 64
	server := redistest.Start(t)
	for _, algorithm := range store.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			client := server.Client()
			var reading sync.WaitGroup
			reading.Add(callers)
			client.AddHook(hook{
				before: func(cmd redis.Cmder) {
					if cmd.Name() == "set" {
						reading.Wait()
					}
				},
				after: func(cmd redis.Cmder) {
					if cmd.Name() == "get" {
						reading.Done()
					}
				},
			})
			req := store.Request{Key: store.Key{Subject: "naive"},
				Limit: store.Limit{Algorithm: algorithm, Count: 1, Period: store.MaxPeriod}, Cost: 1}
			if got := admitted(t, naive.New(client, store.DefaultPrefix), callers, req); got != callers {
				t.Errorf("%d of %d callers who read before anybody wrote were let through", got, callers)
			}
			scripts, err := redisstore.Own(server.Client())
			if err != nil {
				t.Fatal(err)
			}
			req.Key.Subject = "scripts"
			if got := admitted(t, scripts, callers, req); got != 1 {
				t.Errorf("the real store let %d through, not 1", got)
			}
		})
	}
}

// With sequential callers the naive store agrees with the pure algorithms.
func TestSequentialCallsAreRight(t *testing.T) {
	now := time.Date(2026, 3, 29, 0, 59, 59, 123_457_000, time.UTC)
	client := redistest.Start(t).Client()
	client.AddHook(hook{
		before: func(cmd redis.Cmder) {
			if cmd.Name() == "set" {
				// The key must expire by virtual time, not by the server's.
				words := cmd.Args()
				words[4] = words[4].(int64) + time.Hour.Milliseconds()
			}
		},
		after: func(cmd redis.Cmder) {
			if asked, is := cmd.(*redis.TimeCmd); is {
				asked.SetVal(now)
			}
		},
	})
	backend := naive.New(client, store.DefaultPrefix)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		reqs := make([]store.Request, 1+random.IntN(3))
		states, want, got := make([]*store.State, len(reqs)), make([]store.Decision, len(reqs)),
			make([]store.Decision, len(reqs))
		for i := range reqs {
			kind := store.Kinds()[random.IntN(len(store.Kinds()))]
			reqs[i] = store.Request{Key: store.Key{Subject: fmt.Sprint("case:", n), Name: fmt.Sprint("limit-", i)},
				Limit: storetest.LimitOf(kind, 1+random.Int64N(20), time.Minute), Shadow: i > 0 && random.IntN(2) == 0}
			states[i] = new(store.State)
		}
		for range 12 {
			now = now.Add(time.Duration(random.Int64N(4_000_000)) * time.Microsecond)
			op := []store.Op{store.Take, store.Take, store.Take, store.Peek, store.Refund, store.Adjust}[random.IntN(6)]
			for i := range reqs {
				reqs[i].Cost = 1 + random.Int64N(reqs[i].Limit.Count)
			}
			normalized, err := store.NormalizeAll(nil, op, reqs)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = store.Decide(op, normalized, states, want, nil, store.InstantOf(now))
			if err := backend.Decide(ctx, op, reqs, got); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s %v at %s: %v\n got %+v\nwant %+v", op, reqs, now, err, got, want)
			}
		}
	}
}
