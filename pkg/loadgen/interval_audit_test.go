package loadgen

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// remote is a store far away that does not say when it decided, and allows more units of the limit of a second.
type remote struct {
	delayed
	more int64
}

func (s *remote) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		if limit := &reqs[i].Limit; limit.Period == time.Second {
			limit.Count, limit.Burst = limit.Count+s.more, limit.Burst+s.more
		}
	}
	err := s.delayed.Decide(ctx, op, reqs, decisions)
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: decisions[i].Allowed}
	}
	return err
}

// If several limits decide together, nobody knows which one denied, so no denial is wrong; too many allowed
// requests still are.
func TestSeveralLimitsByIntervals(t *testing.T) {
	for _, more := range []int64{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			backend := &remote{farAway(10*time.Millisecond, 10*time.Millisecond, memorystore.New()), more}
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
