package loadgen

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// wrapped is a store before which something else answers some of the calls.
type wrapped struct {
	store.Store
	calls int
	// by says who answers call n, and after what time.
	by func(n int) (by store.Decider, takes time.Duration, err error)
}

func (s *wrapped) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.calls++
	by, takes, err := s.by(s.calls)
	time.Sleep(takes)
	switch {
	case err != nil:
		return err
	case by == store.DecidedByStore, by == store.DecidedByDenialMemory:
		err = s.Store.Decide(ctx, op, reqs, decisions)
		for i := range decisions {
			decisions[i].DecidedBy = by
		}
		return err
	}
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: true, DecidedBy: by, Unguarded: by == store.DecidedByFailurePolicy}
	}
	return nil
}

// Answers that the limit did not decide are counted and timed separately, and are no fault of the limit.
func TestAnswersAreToldApartByWhoDecided(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		memory := memorystore.New()
		charging := population(t, 1, "30/1h")
		backend := &wrapped{Store: memory, by: func(n int) (store.Decider, time.Duration, error) {
			switch {
			case n <= 20:
				return store.DecidedByStore, 2 * ms, nil
			case n <= 30:
				return store.DecidedByStore, 9 * ms, errors.New("away")
			case n <= 35: // charged, although the answer was lost
				if err := memory.Decide(t.Context(), store.Take, charging.Requests(0), make([]store.Decision, 1)); err != nil {
					return 0, 0, err
				}
				return store.DecidedByFailurePolicy, 7 * ms, nil
			case n <= 75:
				return store.DecidedByLocal, 5 * ms, nil
			case n <= 90:
				return store.DecidedByStore, 2 * ms, nil
			}
			return store.DecidedByDenialMemory, 1 * ms, nil
		}}
		r := virtual(t, Config{Store: backend, Population: charging, Load: even(100, time.Second), Workers: 1, Duration: time.Second})
		if r.Requests != 100 || r.Allowed != 25 || r.Denied != 20 || r.Errors != 10 || r.Unguarded != 5 || r.Local != 40 ||
			r.Decided != 45 {
			t.Errorf("%+v", r)
		}
		if microseconds(r.Latency, 100) != 2*ms || microseconds(r.Service, 100) != 2*ms || r.Latency.TotalCount() != 45 ||
			microseconds(r.ErrorLatency, 50).Truncate(ms) != 9*ms || r.ErrorLatency.TotalCount() != 10 {
			t.Errorf("decided within %s, failed within %s", microseconds(r.Latency, 100), microseconds(r.ErrorLatency, 100))
		}
		for i, want := range []struct {
			Answers
			latency time.Duration
		}{
			{Answers{By: store.DecidedByStore, Allowed: 25, Denied: 10}, 2 * ms},
			{Answers{By: store.DecidedByLocal, Allowed: 40}, 5 * ms},
			{Answers{By: store.DecidedByDenialMemory, Denied: 10}, 1 * ms},
			{Answers{By: store.DecidedByFailurePolicy, Allowed: 5}, 7 * ms},
		} {
			got := r.ByDecider[i]
			if got.By != want.By || got.Allowed != want.Allowed || got.Denied != want.Denied ||
				microseconds(got.Latency, 50).Truncate(ms) != want.latency {
				t.Errorf("%s: %+v, want %+v", want.By, got, want)
			}
		}
		if f := r.Findings[0]; f.OverAdmitted != 0 || f.UnderAdmitted != 0 || f.WorstUnits != 25 || r.Tally.Requests() != 45 {
			t.Errorf("the limit is blamed for what it did not decide: %+v", f)
		}
		local, unguarded, failed := int64(0), int64(0), int64(0)
		for _, i := range r.Timeline {
			local, unguarded, failed = local+i.Local, unguarded+i.Unguarded, failed+i.Errors
		}
		if local != 40 || unguarded != 5 || failed != 10 {
			t.Errorf("over time %d local, %d unguarded, %d failed", local, unguarded, failed)
		}
	})
}
