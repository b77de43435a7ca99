package layers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// An interrupted wait is repeated with its token: nothing is charged again, it waits behind nobody, and it keeps
// its turn.
func TestWaitWithAToken(t *testing.T) {
	now := time.Unix(1e9, 0)
	backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	waiter := &layers.Waiter{Store: backend, Now: func() time.Time { return now }, Sleep: func(_ context.Context, d time.Duration) error {
		now = now.Add(d)
		return nil
	}}
	limit := store.Limit{Algorithm: store.LeakyBucket, Count: 1, Period: time.Second, Burst: 100}
	req := store.Request{Key: store.Key{Subject: "a"}, Limit: limit, Cost: 1, Token: "t"}
	other := store.Request{Key: req.Key, Limit: limit, Cost: 5}
	ctx := context.Background()
	decided(t, backend, store.Take, other)
	begin := now
	decided(t, backend, store.Take, req) // its answer is lost
	decided(t, backend, store.Take, other)
	now = now.Add(2 * time.Second)
	d, err := waiter.Take(ctx, req)
	if err != nil || !d[0].Allowed || !d[0].Repeated || d[0].Granted != 1 || now.Sub(begin) != 5*time.Second {
		t.Errorf("asked again, it is %+v, %v after %v; its turn was after 5 s", d, err, now.Sub(begin))
	}

	// A turn that comes too late for this caller stays with the call that got it.
	req.Token = "late"
	decided(t, backend, store.Take, req)
	used := decided(t, backend, store.Peek, other).Used
	waiter.MaxWait = time.Second
	if d, err := waiter.Take(ctx, req); err != nil || d[0].Allowed || d[0].RetryAfter <= 0 {
		t.Errorf("a turn that comes too late is %+v, %v", d, err)
	}
	if d := decided(t, backend, store.Peek, other); d.Used != used {
		t.Errorf("%d used before, %d after a caller left its turn", used, d.Used)
	}

	// A token that is not remembered waits as usual.
	req = store.Request{Key: store.Key{Subject: "b"}, Limit: store.Limit{Count: 1, Period: time.Second}, Cost: 1, Token: "b"}
	waiter.MaxWait = 0
	decided(t, backend, store.Take, store.Request{Key: req.Key, Limit: req.Limit, Cost: 1})
	begin = now
	if d, err := waiter.Take(ctx, req); err != nil || !d[0].Allowed || d[0].Repeated || now.Sub(begin) != time.Second {
		t.Errorf("it waits %v: %+v, %v", now.Sub(begin), d, err)
	}
}

func decided(t *testing.T, backend store.Store, op store.Op, req store.Request) store.Decision {
	t.Helper()
	decisions := make([]store.Decision, 1)
	if err := backend.Decide(context.Background(), op, []store.Request{req}, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions[0]
}

// A turn that another call with the same token got meanwhile, and that comes too late for this one, stays with that
// call. Without an earlier token it is given back.
func TestATurnOfAnotherCallIsNotGivenBack(t *testing.T) {
	for _, repeated := range []bool{true, false} {
		_, w := newVirtual()
		w.MaxWait = time.Second
		late, refunds := time.Second+time.Microsecond, 0
		w.Store = &scripted{decide: func(_ context.Context, op store.Op, decisions []store.Decision) error {
			switch op {
			case store.Peek:
				decisions[0] = store.Decision{Allowed: true}
				if refunds > 0 {
					decisions[0].Delay = late
				}
			case store.Take: // others were faster, and one of them had this token
				decisions[0] = store.Decision{Allowed: true, Repeated: repeated, Delay: late}
			case store.Refund:
				refunds++
			}
			return nil
		}}
		req := request(store.LeakyBucket, 10, time.Hour)
		req.Token = "t"
		decisions, err := w.Take(context.Background(), req)
		if err != nil || decisions[0].Allowed || decisions[0].RetryAfter != time.Microsecond || refunds > 0 == repeated {
			t.Errorf("repeated: %t: %+v, %v, %d refunds", repeated, decisions, err, refunds)
		}
	}
}

// The turn of a leaky bucket at the end of the longest wait is in time.
func TestALeakyTurnAtTheEndOfTheWait(t *testing.T) {
	for _, token := range []string{"", "t"} {
		for _, short := range []time.Duration{0, time.Microsecond} {
			v, w := newVirtual()
			begin, req := v.now, request(store.LeakyBucket, 1, time.Second)
			req.Limit.Burst, req.Token = 10, token
			other := req
			other.Token = ""
			decided(t, w.Store, store.Take, other)
			if token != "" {
				decided(t, w.Store, store.Take, req)
			}
			w.MaxWait = time.Second - short
			decisions, err := w.Take(context.Background(), req)
			after, retry := time.Second, time.Duration(0)
			if short > 0 {
				after, retry = 0, short
			}
			if d := decisions[0]; err != nil || d.Allowed != (short == 0) || d.RetryAfter != retry || v.now.Sub(begin) != after {
				t.Errorf("token %q, short by %s: %+v, %v after %s", token, short, d, err, v.now.Sub(begin))
			}
		}
	}
}

// A call with a remembered token waits behind nobody, even if the answer is that its turn comes too late.
func TestARepeatedWaitStandsBehindNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &layers.Waiter{Store: memorystore.New()}
		begin, req := time.Now(), request(store.LeakyBucket, 1, time.Hour)
		req.Limit.Burst = 10
		large := req
		large.Cost = 10
		decided(t, w.Store, store.Take, req)
		req.Token = "t"
		decided(t, w.Store, store.Take, req) // in an hour
		ctx, leave := context.WithCancel(t.Context())
		go w.Take(ctx, large)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := w.Take(short, req)
		if err != nil || d[0].Allowed || d[0].Unguarded || d[0].RetryAfter != 59*time.Minute || time.Since(begin) != 0 {
			t.Errorf("a turn in an hour: %+v, %v after %s", d, err, time.Since(begin))
		}
		if d, err := w.Take(t.Context(), req); err != nil || !d[0].Allowed || !d[0].Repeated || time.Since(begin) != time.Hour {
			t.Errorf("a turn in an hour: %+v, %v after %s", d, err, time.Since(begin))
		}
		leave()
	})
}

// A token whose units were given back just after it was found waits as usual.
func TestATokenThatWasGivenBackWaits(t *testing.T) {
	v, w := newVirtual()
	begin, takes := v.now, 0
	w.Store = &scripted{decide: func(_ context.Context, op store.Op, decisions []store.Decision) error {
		switch {
		case op == store.Peek:
			decisions[0] = store.Decision{Allowed: true, Repeated: true}
		case v.now.Equal(begin):
			takes++
			decisions[0] = store.Decision{RetryAfter: time.Second}
		default:
			decisions[0] = store.Decision{Allowed: true, Granted: 1}
		}
		return nil
	}}
	req := request(store.TokenBucket, 1, time.Second)
	req.Token = "t"
	if d, err := w.Take(context.Background(), req); err != nil || !d[0].Allowed || v.now.Sub(begin) != time.Second || takes != 2 {
		t.Errorf("%+v, %v after %s and %d takes", d, err, v.now.Sub(begin), takes)
	}
	w.Store = &scripted{decide: func(_ context.Context, op store.Op, _ []store.Decision) error {
		if op != store.Peek {
			t.Errorf("a %s after a look that failed", op)
		}
		return store.ErrRefused
	}}
	if _, err := w.Take(context.Background(), req); !errors.Is(err, store.ErrRefused) {
		t.Errorf("a look that fails: %v", err)
	}
}

// Units with a token are given back as a whole: the store knows what was charged.
func TestATokenIsGivenBackAsAWhole(t *testing.T) {
	for token, want := range map[string]int{"t": 3, "": 1} {
		ctx, leave := context.WithCancel(context.Background())
		_, w := newVirtual()
		refunded := 0
		w.Store = &scripted{decide: func(_ context.Context, op store.Op, decisions []store.Decision) error {
			switch op {
			case store.Take:
				decisions[0] = store.Decision{Allowed: true, Granted: 1, Delay: time.Second}
				decisions[1] = store.Decision{Allowed: true, DecidedBy: store.DecidedByOverride}
				decisions[2] = store.Decision{Allowed: true, DecidedBy: store.DecidedByLocal}
				leave()
			case store.Refund:
				refunded = len(decisions)
			}
			return nil
		}}
		reqs := make([]store.Request, 3)
		for i, subject := range []string{"a", "b", "c"} {
			reqs[i] = request(store.LeakyBucket, 10, time.Hour)
			reqs[i].Key.Subject, reqs[i].Token = subject, token
		}
		if _, err := w.Take(ctx, reqs...); !errors.Is(err, context.Canceled) || refunded != want {
			t.Errorf("token %q: %v, %d were given back, want %d", token, err, refunded, want)
		}
	}
}
