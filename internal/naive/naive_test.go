package naive_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

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

func newStore(t *testing.T, client redis.UniversalClient) *naive.Store {
	t.Helper()
	backend, err := naive.New(client, store.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	return backend
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
			if got := admitted(t, newStore(t, client), callers, req); got != callers {
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

// With sequential callers, the naive and the real store agree with the pure algorithms, and continue each other's
// records.
func TestSequentialCallsAreRight(t *testing.T) {
	server := redistest.Start(t)
	now := time.Date(2026, 3, 29, 0, 59, 59, 123_457_000, time.UTC)
	client := server.Client()
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
	backend := newStore(t, client)
	scripts, err := redisstore.Own(server.Client(), redisstore.WithClock(func() time.Time { return now }))
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	rapid.Check(t, func(rt *rapid.T) {
		cases++
		reqs := make([]store.Request, rapid.IntRange(1, 3).Draw(rt, "limits"))
		states, want, got := make([]*store.State, len(reqs)), make([]store.Decision, len(reqs)), make([]store.Decision, len(reqs))
		for i := range reqs {
			key := store.Key{Subject: fmt.Sprint("case:", cases), Name: fmt.Sprint("limit-", i)}
			reqs[i] = store.Request{Key: key, Limit: drawLimit(rt)}
			states[i] = new(store.State)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 4_000_000).Draw(rt, "pause")) * time.Microsecond)
			ops := []store.Op{store.Take, store.Take, store.Take, store.Peek, store.Refund, store.Adjust}
			op := rapid.SampledFrom(ops).Draw(rt, "op")
			for i := range reqs {
				reqs[i].Cost = rapid.Int64Range(1, reqs[i].Limit.Count).Draw(rt, "cost")
				reqs[i].Shadow = i > 0 && rapid.Bool().Draw(rt, "shadow")
			}
			normalized, err := store.NormalizeAll(nil, op, reqs)
			if err != nil {
				rt.Fatal(err)
			}
			_, _ = store.Decide(op, normalized, states, want, nil, store.InstantOf(now))
			decider, isNaive := store.Store(backend), rapid.Bool().Draw(rt, "naive")
			if !isNaive {
				decider = scripts
			}
			if err := decider.Decide(ctx, op, reqs, got); err != nil {
				rt.Fatal(err)
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%s %v at %s, naive: %v\n got %+v\nwant %+v", op, reqs, now, isNaive, got, want)
			}
		}
	})
}

func drawLimit(t *rapid.T) store.Limit {
	kind := rapid.SampledFrom(store.Kinds()).Draw(t, "kind")
	limit := store.Limit{
		Algorithm: kind.Algorithm(),
		Count:     rapid.Int64Range(1, 20).Draw(t, "count"),
		Period:    time.Duration(rapid.Int64Range(1_000, 10_000_000).Draw(t, "period")) * time.Microsecond,
	}
	if kind.HasSlices() {
		limit.Slices = rapid.Int64Range(2, 20).Draw(t, "slices")
		limit.Period *= time.Duration(limit.Slices)
	}
	if kind.InCalendar() {
		limit = storetest.LimitOf(kind, limit.Count, 0)
	}
	return limit
}
