package loadgen

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// remote is a store that does not say when it decided between request and answer.
type remote struct {
	store.Store
	latency func() time.Duration
	changes func(*store.Request)
}

func (s *remote) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	time.Sleep(s.latency())
	changed := append([]store.Request(nil), reqs...)
	for i := range changed {
		if s.changes != nil {
			s.changes(&changed[i])
		}
	}
	err := s.Store.Decide(ctx, op, changed, decisions)
	time.Sleep(s.latency())
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: decisions[i].Allowed}
	}
	return err
}

// jitter returns a function that returns random times below most.
func jitter(most time.Duration) func() time.Duration {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 2))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(most)))
	}
}

// If several limits decide together, nobody knows which one denied, so no denial is wrong; too many allowed
// requests still are.
func TestSeveralLimitsByIntervals(t *testing.T) {
	for _, more := range []int64{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			backend := &remote{memorystore.New(), jitter(10 * time.Millisecond), func(r *store.Request) {
				if r.Limit.Period == time.Second {
					r.Limit.Count, r.Limit.Burst = r.Limit.Count+more, r.Limit.Burst+more
				}
			}}
			r := virtual(t, Config{
				Store: backend, Population: population(t, 2, "sliding-log:5/1s", "fixed-window:20/10s,from=first"),
				Workers:  100,
				Duration: 30 * time.Second, Intervals: &interval.Options{Resolution: time.Microsecond},
				Load: NewLoad(constant(100, 30*time.Second), Mix{Evenly(2), Costs{1, 1}}, 1),
			})
			for i, f := range r.findings {
				if over := more > 0 && i == 0; f.OverAdmitted > 0 != over || f.UnderAdmitted > 0 {
					t.Errorf("%d more, limit %d: %+v", more, i, f)
				}
			}
		})
	}
}
