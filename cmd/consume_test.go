package cmd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// scripted is a store that answers as it is told.
type scripted struct {
	limiter.Store
	decide func(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error
}

func (s *scripted) Decide(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	return s.decide(ctx, op, reqs, decisions)
}

func waiting(w *world, patience time.Duration) *consumeOptions {
	limit := limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 10, Burst: 10, Period: time.Hour}
	reqs := []limiter.Request{{Key: limiter.Key{Subject: "u", Name: "n"}, Limit: limit, Cost: 1}}
	return &consumeOptions{globalOptions: &globalOptions{env: w.Env, timeout: time.Second, quiet: true}, demand: &demand{key: "u", reqs: reqs}, patience: patience}
}

// A turn that somebody else made too late is given back though the caller leaves just
// then, the answer is of the key as it is left, and where giving back fails the exit
// code does not say that nothing was taken.
func TestATurnThatBecameTooLateIsGivenBack(t *testing.T) {
	for name, refundErr := range map[string]error{"given back": nil, "not given back": limiter.ErrUnavailable} {
		ctx, interrupt := context.WithCancel(context.Background())
		used, refunded := int64(4), false
		store := &scripted{decide: func(ctx context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
			if ctx.Err() != nil && op == limiter.Refund {
				return ctx.Err()
			}
			switch op {
			case limiter.Peek:
				decisions[0] = limiter.Decision{Allowed: true, Used: used, Remaining: 10 - used, Delay: time.Duration(used-4) * time.Minute}
			case limiter.Take: // somebody else was quicker
				used += 2
				decisions[0] = limiter.Decision{Allowed: true, Used: used, Remaining: 10 - used, Delay: time.Minute}
				if refundErr != nil {
					interrupt()
				}
			case limiter.Refund:
				if refundErr != nil {
					return refundErr
				}
				used--
				refunded = true
			}
			return nil
		}}
		decisions, err := waiting(newWorld(t), time.Second).takeTurn(ctx, store)
		interrupt()
		if refundErr != nil {
			if exitCode(err) != exitPartly || !errors.Is(err, refundErr) {
				t.Errorf("%s: %v, exit code %d, want %d", name, err, exitCode(err), exitPartly)
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
	store := &scripted{decide: func(_ context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
		switch op {
		case limiter.Peek:
			decisions[0] = limiter.Decision{Allowed: true, Remaining: 10}
		case limiter.Take:
			decisions[0] = limiter.Decision{Allowed: true, Unguarded: true}
			interrupt()
		default:
			t.Errorf("a %s of %d requests", op, len(reqs))
		}
		return nil
	}}
	if _, err := waiting(newWorld(t), forever).takeTurn(ctx, store); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
