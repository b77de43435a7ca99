package limiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// deniesUntil denies each call for ten milliseconds. Once over, each ends in err.
type deniesUntil struct {
	over <-chan struct{}
	err  error
}

func (s *deniesUntil) Decide(_ context.Context, _ limiter.Op, _ []limiter.Request, decisions []limiter.Decision) error {
	select {
	case <-s.over:
		return s.err
	default:
		decisions[0] = limiter.Decision{RetryAfter: 10 * time.Millisecond, ResetAfter: time.Second}
		return nil
	}
}

func (s *deniesUntil) Close() error { return nil }

// atTheEnd sleeps so long that the turn comes when the caller's time has just passed.
func atTheEnd(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return nil
}

// A turn that comes when the caller's deadline has just passed is a denial, as every turn
// that comes too late. But whether the take was charged may be unknown, and that is told.
func TestATurnAtTheDeadlineIsADenial(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"not asked":       {limiter.ErrGaveUp, nil},
		"perhaps charged": {errors.Join(limiter.ErrOutcomeUnknown, limiter.ErrGaveUp), limiter.ErrOutcomeUnknown},
		"refused":         {limiter.ErrRefused, limiter.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				w := &limiter.Waiter{Store: &deniesUntil{over: ctx.Done(), err: c.err}, Sleep: atTheEnd}
				decisions, err := w.Take(ctx, request(limiter.TokenBucket, 100, time.Second))
				if !errors.Is(err, c.want) {
					t.Fatalf("the error is %v, want %v", err, c.want)
				}
				if d := decisions; c.want == nil && (d[0].Allowed || d[0].RetryAfter != time.Microsecond || d[0].ResetAfter != 950*time.Millisecond) {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// It is the same in an outage, when a local share decides behind an open breaker. A caller
// whose time is over is told so by the breaker, too.
func TestATurnAtTheDeadlineInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &deniesUntil{over: closed(), err: limiter.ErrUnavailable}
		guarded := limiter.WithBreaker(away, limiter.Breaker{Failures: 1})
		soft := limiter.WithFailurePolicy(guarded, limiter.LocalOnError, nil)
		req := request(limiter.TokenBucket, 100, time.Second)
		all := req
		all.Cost = 25 // the share
		if decisions, err := limiter.New(soft).TakeAll(t.Context(), all); err != nil || !limiter.AllAllowed(decisions) {
			t.Fatalf("%+v, %v", decisions, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		decisions, err := (&limiter.Waiter{Store: soft, Sleep: atTheEnd}).Take(ctx, req)
		if err != nil || limiter.AllAllowed(decisions) || decisions[0].DecidedBy != limiter.DecidedByLocal {
			t.Errorf("got %+v, %v", decisions, err)
		}
		err = guarded.Decide(ctx, limiter.Take, []limiter.Request{req}, make([]limiter.Decision, 1))
		if !errors.Is(err, limiter.ErrGaveUp) || limiter.IsAway(err) {
			t.Errorf("the open breaker says to a caller whose time is over: %v", err)
		}
	})
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
