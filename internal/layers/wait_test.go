package layers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// virtual is a clock that sleep advances.
type virtual struct {
	now   time.Time
	slept []time.Duration
}

func (v *virtual) sleep(ctx context.Context, d time.Duration) error {
	v.slept = append(v.slept, d)
	v.now = v.now.Add(d)
	return ctx.Err()
}

func newVirtual() (*virtual, *layers.Waiter) {
	v := &virtual{now: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return v.now }
	return v, &layers.Waiter{Store: memorystore.New(memorystore.WithClock(clock)), Now: clock, Sleep: v.sleep}
}

func request(algorithm store.Algorithm, count int64, period time.Duration) store.Request {
	return store.Request{Key: store.Key{Subject: "u"}, Limit: store.Limit{Algorithm: algorithm, Count: count,
		Period: period}, Cost: 1}
}

// Every turn comes at the exact instant, and never later than the longest wait.
func TestWaiterTakesItsTurns(t *testing.T) {
	for _, algorithm := range store.Algorithms() {
		v, w := newVirtual()
		w.MaxWait = time.Hour
		begin, req := v.now, request(algorithm, 2, time.Second)
		for n := range 9 {
			decisions, err := w.Take(context.Background(), req)
			if err != nil || !store.AllAllowed(decisions) {
				t.Fatalf("%s: take %d: %+v, %v", algorithm, n, decisions, err)
			}
		}
		took := v.now.Sub(begin)
		// Nine units at two a second: a bucket lets two through at once and then one each half second; a leaky
		// bucket's last one leaves when its rate says; windows let two through each second. A sliding counter with
		// two units in the window before lets one through in the middle of the next, and from then on one a second.
		want := map[store.Algorithm]time.Duration{store.TokenBucket: 3500 * time.Millisecond, store.LeakyBucket: 4 * time.Second,
			store.FixedWindow: 4 * time.Second, store.SlidingLog: 4 * time.Second, store.SlidingCounter: 7 * time.Second}
		if took != want[algorithm] {
			t.Errorf("%s: nine turns took %s, want %s", algorithm, took, want[algorithm])
		}
	}
}

func TestWaiterDoesNotBeginAWaitThatIsTooLong(t *testing.T) {
	for _, algorithm := range store.Algorithms() {
		v, w := newVirtual()
		w.MaxWait = time.Second
		req := request(algorithm, 1, time.Hour)
		if _, err := w.Take(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		v.slept = nil
		decisions, err := w.Take(context.Background(), req)
		if err != nil || store.AllAllowed(decisions) || decisions[0].RetryAfter <= time.Second || decisions[0].Used != 1 ||
			len(v.slept) > 0 {
			t.Errorf("%s: %+v, %v, slept %v", algorithm, decisions, err, v.slept)
		}
	}
}

// A deadline of the context bounds the wait, too: the denial comes at once and not after the deadline.
func TestWaitHeedsTheContextsDeadline(t *testing.T) {
	l := storecall.New(memorystore.New())
	limit := store.Limit{Count: 1, Period: time.Hour}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if d, err := l.Wait(ctx, store.Key{Subject: "u"}, limit, 1); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	d, err := l.Wait(ctx, store.Key{Subject: "u"}, limit, 1)
	var denied *storecall.DeniedError
	if !errors.As(err, &denied) || !errors.Is(err, context.DeadlineExceeded) || d.Allowed || d.RetryAfter < 59*time.Minute {
		t.Errorf("%+v, %v", d, err)
	}
	if denied != nil && (len(denied.Decisions) != 1 || denied.Decisions[0] != d || !strings.Contains(err.Error(), "try again in ")) {
		t.Errorf("%+v, %v", denied.Decisions, err)
	}
}

// A caller that leaves during the delay of a leaky bucket has used nothing.
func TestWaiterGivesBackWhenTheCallerLeaves(t *testing.T) {
	v, w := newVirtual()
	req := request(store.LeakyBucket, 10, time.Hour)
	if _, err := w.Take(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(context.Background())
	w.Sleep = func(ctx context.Context, d time.Duration) error { leave(); return ctx.Err() }
	if _, err := w.Take(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	decisions := make([]store.Decision, 1)
	if err := w.Store.Decide(context.Background(), store.Peek, []store.Request{req}, decisions); err != nil || decisions[0].Used != 1 {
		t.Errorf("after leaving at %s: %+v, %v", v.now, decisions, err)
	}
}

// scripted is a store whose answers a test decides.
type scripted struct {
	store.Store
	decide func(ctx context.Context, op store.Op, decisions []store.Decision) error
}

func (s *scripted) Decide(ctx context.Context, op store.Op, _ []store.Request, decisions []store.Decision) error {
	return s.decide(ctx, op, decisions)
}

// A turn that another caller made too late is given back, even if its caller leaves at that moment. The answer
// describes the key afterwards, and a failed refund is an error.
func TestATurnThatBecameTooLateIsGivenBack(t *testing.T) {
	for name, refundErr := range map[string]error{"given back": nil, "not given back": store.ErrUnavailable} {
		ctx, interrupt := context.WithCancel(context.Background())
		_, w := newVirtual()
		used, refunded := int64(4), false
		w.MaxWait = time.Second
		w.Store = &scripted{decide: func(ctx context.Context, op store.Op, decisions []store.Decision) error {
			if ctx.Err() != nil && op == store.Refund {
				return ctx.Err()
			}
			switch op {
			case store.Peek:
				decisions[0] = store.Decision{Allowed: true, Used: used, Remaining: 10 - used, Delay: time.Duration(used-4) * time.Minute}
			case store.Take: // another caller was faster
				used += 2
				decisions[0] = store.Decision{Allowed: true, Used: used, Remaining: 10 - used, Delay: time.Minute}
				if refundErr != nil {
					interrupt()
				}
			case store.Refund:
				if refundErr != nil {
					return refundErr
				}
				used--
				refunded = true
			}
			return nil
		}}
		decisions, err := w.Take(ctx, request(store.LeakyBucket, 10, time.Hour))
		interrupt()
		if refundErr != nil {
			if !errors.Is(err, layers.ErrNotGivenBack) || !errors.Is(err, refundErr) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !refunded || decisions[0].Allowed || decisions[0].Used != used {
			t.Errorf("%s: %+v, %v, refunded %v, and %d are used", name, decisions, err, refunded, used)
		}
	}
}

// What a failure policy let through was not taken, and is not given back.
func TestWhatWasNotTakenIsNotGivenBack(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	_, w := newVirtual()
	w.Store = &scripted{decide: func(_ context.Context, op store.Op, decisions []store.Decision) error {
		switch op {
		case store.Peek:
			decisions[0] = store.Decision{Allowed: true, Remaining: 10}
		case store.Take:
			decisions[0] = store.Decision{Allowed: true, Unguarded: true}
			interrupt()
		default:
			t.Errorf("a %s", op)
		}
		return nil
	}}
	if _, err := w.Take(ctx, request(store.LeakyBucket, 10, time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
