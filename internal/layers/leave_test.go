package layers_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The denial memory repeats a denial only to those who leave as much, with what remains for them.
func TestADenialIsOfThoseWhoLeaveAsMuch(t *testing.T) {
	far := newFarStore(0, 0)
	memory := layers.DenialMemory{Clock: far.time.local}.Wrap(far)
	req := func(cost, leave int64) store.Request {
		req := takes("u", 10, 10*time.Second, cost)
		req.Leave = leave
		return req
	}
	decide(t, memory, store.Take, req(6, 0))
	for i, test := range []struct {
		req     store.Request
		allowed bool
		by      store.Decider
		remain  int64
	}{
		{req(1, 5), false, store.DecidedByStore, 0},
		{req(1, 5), false, store.DecidedByDenialMemory, 0},
		{req(2, 3), false, store.DecidedByStore, 1},
		{req(1, 6), false, store.DecidedByStore, 0},
		{req(3, 3), false, store.DecidedByDenialMemory, 1},
		{req(4, 0), true, store.DecidedByStore, 0},
	} {
		d := decide(t, memory, store.Take, test.req)[0]
		if d.Allowed != test.allowed || d.DecidedBy != test.by || d.Remaining != test.remain {
			t.Errorf("take %d of %d that leaves %d: %+v", i, test.req.Cost, test.req.Leave, d)
		}
	}
	decide(t, memory, store.Refund, req(10, 0))
	for _, leave := range []int64{5, 6, 3} {
		if d := decide(t, memory, store.Peek, req(1, leave))[0]; !d.Allowed {
			t.Errorf("after the refund, with %d to be left: %+v", leave, d)
		}
	}
}

// Units that were taken in advance for those who leave nothing are not given to others, and what is left stays free.
func TestLeasesAreOfThoseWhoLeaveAsMuch(t *testing.T) {
	r := newReplicas(1, 0, 0, func(backend store.Store, a *agenda) store.Store {
		return layers.WithLeases(backend, layers.Leases{Clock: a.local, Background: a.background})
	})
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Hour}
	req := func(leave int64) store.Request {
		return store.Request{Key: store.Key{Subject: "hot"}, Limit: limit, Cost: 1, Leave: leave}
	}
	granted, leased := map[int64]int64{}, map[int64]bool{}
	for range 2000 {
		for _, leave := range []int64{400, 0} {
			if leave == 0 && granted[0] >= 100 {
				continue // the paid callers are done, and the others go on
			}
			d := decide(t, r.stacks[0], store.Take, req(leave))[0]
			if d.Allowed {
				granted[leave]++
				leased[leave] = leased[leave] || d.DecidedBy == store.DecidedByLease
			}
			if d.Used+d.Remaining != limit.Count-leave && d.Used <= limit.Count-leave {
				t.Fatalf("with %d to be left: %+v", leave, d)
			}
		}
		r.pass(100 * time.Microsecond)
	}
	r.pass(time.Second)
	if granted[0] != 100 || granted[400] != 500 || !leased[0] || !leased[400] {
		t.Errorf("granted %v, by leases %v", granted, leased)
	}
	if d := decide(t, r.stacks[0], store.Peek, req(0))[0]; d.Remaining != 400 {
		t.Errorf("what is left to the others: %+v", d)
	}
	r.close(t)
}

// Overrides scale what is left with the limit, and an exemption leaves nothing.
func TestOverridesScaleWhatIsLeft(t *testing.T) {
	f := newOverrideFixture(t)
	f.set(time.Minute, "doubled", store.Override{Effect: store.OverrideTimes, Thousandths: 2000})
	f.set(time.Minute, "third", store.Override{Effect: store.OverrideLimit,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 3, Period: time.Hour}})
	one := f.set(time.Minute, "one", store.Override{Effect: store.OverrideLimit,
		Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: time.Hour}})
	f.apply(time.Minute, "exempt", store.Override{Effect: store.OverrideExempt})
	ask := func(subject string) store.Request {
		req := asks(subject, 10, 1)
		req.Leave = 4
		return req
	}
	for subject, remaining := range map[string]int64{"plain": 5, "doubled": 11, "third": 0, "exempt": 9} {
		// 4 of 10 are 8 of 20 and, rounded up, 2 of 3.
		if d := f.decide(store.Take, ask(subject))[0]; !d.Allowed || d.Remaining != remaining || d.Granted != 1 {
			t.Errorf("%s: %+v", subject, d)
		}
	}
	// 4 of 10 are 1 of 1, so nothing is left for the request. That is no error for a caller who knows only the original limit.
	for _, op := range []store.Op{store.Take, store.Peek, store.TakeUpTo} {
		if d := f.decide(op, ask("one"))[0]; d.Allowed || d.Override == nil || d.Override.ID != one.ID || d.RetryAfter <= 0 {
			t.Errorf("a %s: %+v", op, d)
		}
	}
	large := ask("exempt")
	large.Cost = 7 // which the limit allows, and not to one who leaves 4
	if d := f.decide(store.Take, large)[0]; !d.Allowed || d.Granted != 7 {
		t.Errorf("a large cost of the exempt one: %+v", d)
	}
}

// A local share scales what is left with the limit.
func TestALocalShareScalesWhatIsLeft(t *testing.T) {
	o := newOutage()
	backend := o.locally(0)
	o.err = errUnknown
	req := asking("u", "100/1h", 1)
	req.Leave = 30
	if d := decide(t, backend, store.Take, req)[0]; !d.Allowed || d.Remaining != 16 { // of 25, with 8 to be left
		t.Errorf("%+v", d)
	}
	req.Cost = 60 // it fits the limit and not the share
	if d := decide(t, backend, store.Take, req)[0]; d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
}
