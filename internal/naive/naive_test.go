package naive_test

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/naive"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var ctx = context.Background()

// meeting makes all callers read before any writes.
type meeting struct{ reading *sync.WaitGroup }

func (m meeting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m meeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "set" {
			m.reading.Wait()
		}
		err := next(ctx, cmd)
		if cmd.Name() == "get" {
			m.reading.Done()
		}
		return err
	}
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
			client.AddHook(meeting{&reading})
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
