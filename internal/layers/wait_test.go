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
