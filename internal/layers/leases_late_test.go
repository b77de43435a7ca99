package layers_test

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// lateRefunds is a store that gets refunds late. Until then their outcome is unknown.
type lateRefunds struct {
	store.Store
	*agenda
	late func() time.Duration
}

func (s lateRefunds) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	late := time.Duration(0)
	if op == store.Refund {
		late = s.late()
	}
	if late == 0 {
		return s.Store.Decide(ctx, op, reqs, decisions)
	}
	reqs = slices.Clone(reqs)
	s.number++
	heap.Push(&s.timers, timer{s.passed + late, s.number, func() {
		if err := s.Store.Decide(context.Background(), op, reqs, make([]store.Decision, len(reqs))); err != nil {
			panic(err)
		}
	}})
	return errUnknown
}

// However late refunds reach the store, the limit holds by the instants of the charges, and every denial is
// explained by the held units.
func TestLateRefundsKeepTheLimit(t *testing.T) {
	refunds, late := 0, 0
	for seed := range uint64(600) {
		random := rand.New(rand.NewPCG(seed, 0))
		upTo := func(most time.Duration) time.Duration {
			return time.Duration(random.Int64N(1+most.Microseconds())) * time.Microsecond
		}
		limit, most, n := leasableLimit(t, random), 2+random.Int64N(60), 1+random.IntN(3)
		delay := func() time.Duration {
			refunds++
			if random.IntN(2) == 0 {
				return 0
			}
			late++
			return upTo(max(limit.Period, time.Second))
		}
		r := newReplicas(n, upTo(time.Millisecond), upTo(time.Millisecond),
			func(backend store.Store, a *agenda) store.Store {
				return layers.WithLeases(lateRefunds{backend, a, delay}, layers.Leases{Max: most, Clock: a.local, Background: a.background})
			})
		r.stacks = append(r.stacks, uncloseable{r.farStore}) // a process without leases
		takeTheRest := func() {
			for _, cost := range []int64{100, 10, 1} {
				cost = min(cost, limit.Capacity())
				for i := int64(0); i <= limit.Capacity()/cost && r.take(t, n, hotKey, limit, cost).Allowed; i++ {
				}
			}
		}
		for range 1 + random.IntN(6) {
			step := []time.Duration{0, time.Millisecond, 7 * time.Millisecond}[random.IntN(3)]
			replica := random.IntN(n)
			for range 5 + random.IntN(60) {
				r.pass(step)
				r.take(t, replica, hotKey, limit, 1)
			}
			for range random.IntN(7) {
				r.pass(upTo(limit.Period / 2))
				takeTheRest()
			}
		}
		r.close(t)
		for range 6 { // also after the late refunds at the end
			takeTheRest()
			r.pass(max(limit.Period, time.Second) / 5)
		}
		if f := audited(limit, r.observed, int64(n)*most); f.OverAdmitted > 0 || f.UnderAdmitted > 0 {
			t.Errorf("seed %d: %s: %d over and %d under", seed, limit, f.OverAdmitted, f.UnderAdmitted)
		}
	}
	if late < 100 || refunds-late < 100 {
		t.Errorf("only %d of %d refunds were late", late, refunds)
	}
	t.Logf("%d of %d refunds were late", late, refunds)
}

// A refund that was under way for a minute gives nothing back: by then the units would be those of others.
func TestALateRefundOfALeaseDoesNothing(t *testing.T) {
	for _, limit := range []store.Limit{
		{Count: 600, Period: time.Minute},
		{Algorithm: store.FixedWindow, Count: 600, Period: 45 * time.Second},
		{Algorithm: store.SlidingCounter, Count: 600, Period: 30 * time.Second},
		{Algorithm: store.SlidingCounter, Count: 600, Period: 30 * time.Second, Slices: 10},
	} {
		r := newReplicas(1, 0, 0, func(backend store.Store, a *agenda) store.Store {
			late := lateRefunds{backend, a, func() time.Duration { return time.Minute }}
			return leased(layers.Leases{Max: 60})(late, a)
		})
		for range 8 {
			r.take(t, 0, hotKey, limit, 1)
		}
		if held := r.used(t, hotKey, limit) - 8; held < 2 {
			t.Fatalf("%s: %d units are held", limit, held)
		}
		r.close(t)
		r.passed += time.Minute - time.Millisecond // the late refund has not come yet
		limits := storecall.New(r.farStore.Store)
		if d, err := limits.Take(context.Background(), hotKey, limit, 500); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		before := r.asked
		r.pass(time.Millisecond)
		if used := r.used(t, hotKey, limit); r.asked == before || used < 500 {
			t.Errorf("%s: %d of another's 500 units are in use, %d refunds having come", limit, used, r.asked-before)
		}
	}
}

// leasableLimit is a limit of which some units can be leased.
func leasableLimit(t *testing.T, random *rand.Rand) store.Limit {
	limit := store.Limit{
		Algorithm: []store.Algorithm{store.TokenBucket, store.FixedWindow, store.SlidingCounter}[random.IntN(3)],
		Count:     20 + random.Int64N(300),
		Period:    []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}[random.IntN(4)],
	}
	if limit.Algorithm.HasBurst() && random.IntN(2) == 0 {
		limit.Burst = 20 + random.Int64N(300)
	}
	if limit.Algorithm.HasSlices() {
		limit.Slices = []int64{1, 2, 10}[random.IntN(3)]
	}
	limit, err := limit.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	return limit
}
