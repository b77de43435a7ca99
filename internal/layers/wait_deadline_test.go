package layers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// deniesUntil denies each call after ten milliseconds. Once over is closed, each fails with err.
type deniesUntil struct {
	over <-chan struct{}
	err  error
}

func (s *deniesUntil) Decide(_ context.Context, _ store.Op, _ []store.Request, decisions []store.Decision) error {
	select {
	case <-s.over:
		return s.err
	default:
		decisions[0] = store.Decision{RetryAfter: 10 * time.Millisecond, ResetAfter: time.Second}
		return nil
	}
}

func (s *deniesUntil) Close() error { return nil }

// atTheEnd sleeps until the caller's time has just passed.
func atTheEnd(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return nil
}

// A turn that comes just after the caller's deadline is a denial, like every late turn. But if the take may have
// been charged, the error says so.
func TestATurnAtTheDeadlineIsADenial(t *testing.T) {
	for name, c := range map[string]struct{ err, want error }{
		"not asked":       {store.ErrGaveUp, nil},
		"perhaps charged": {errors.Join(store.ErrOutcomeUnknown, store.ErrGaveUp), store.ErrOutcomeUnknown},
		"refused":         {store.ErrRefused, store.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				w := &layers.Waiter{Store: &deniesUntil{over: ctx.Done(), err: c.err}, Sleep: atTheEnd}
				decisions, err := w.Take(ctx, request(store.TokenBucket, 100, time.Second))
				if !errors.Is(err, c.want) {
					t.Fatalf("the error is %v, want %v", err, c.want)
				}
				if d := decisions; c.want == nil && (d[0].Allowed || d[0].RetryAfter != time.Microsecond ||
					d[0].ResetAfter != 950*time.Millisecond) {
					t.Errorf("got %+v", d)
				}
			})
		})
	}
}

// The same in an outage, when a local share decides behind an open breaker. The breaker also returns the right
// error to a caller whose time is over.
func TestATurnAtTheDeadlineInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &deniesUntil{over: closed(), err: store.ErrUnavailable}
		guarded := layers.WithBreaker(away, layers.Breaker{Failures: 1})
		soft := layers.WithFailure(guarded, layers.Failure{Policy: store.LocalOnError})
		req := request(store.TokenBucket, 100, time.Second)
		all := req
		all.Cost = 25 // the share
		if decisions, err := storecall.New(soft).TakeAll(t.Context(), all); err != nil || !store.AllAllowed(decisions) {
			t.Fatalf("%+v, %v", decisions, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		decisions, err := (&layers.Waiter{Store: soft, Sleep: atTheEnd}).Take(ctx, req)
		if err != nil || store.AllAllowed(decisions) || decisions[0].DecidedBy != store.DecidedByLocal {
			t.Errorf("got %+v, %v", decisions, err)
		}
		err = guarded.Decide(ctx, store.Take, []store.Request{req}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrGaveUp) || store.IsAway(err) {
			t.Errorf("the open breaker says to a caller whose time is over: %v", err)
		}
	})
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// silentFrom does not answer from call n on, and does not pass it on. It answers refunds.
type silentFrom struct {
	store.Store
	n int
}

func (s *silentFrom) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.n--; s.n < 0 && op != store.Refund {
		<-ctx.Done()
		return store.GaveUp(ctx)
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// Wherever a wait ends with its caller's time, it is a denial if the deadline passed, and an ErrGaveUp if the
// caller left. It is never a bare error of the context, and nothing stays charged.
func TestWhereverAWaitEnds(t *testing.T) {
	one := request(store.LeakyBucket, 60, time.Hour) // its turn comes a minute after the one before
	all, token := request(store.TokenBucket, 60, time.Hour), request(store.TokenBucket, 60, time.Hour)
	all.Cost, token.Token = 60, "t"
	for name, c := range map[string]struct {
		req   store.Request
		taken int  // answered calls; the first takes the same for another caller
		asked bool // it got an answer before
	}{
		"in the first question":          {all, 0, false},
		"in the question about a token":  {token, 0, false},
		"in the question after its turn": {all, 2, true},
		"in its delay":                   {one, 9, true},
	} {
		for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
			synctest.Test(t, func(t *testing.T) {
				inner := memorystore.New()
				backend := &silentFrom{inner, c.taken}
				w := &layers.Waiter{Store: backend, Sleep: func(ctx context.Context, d time.Duration) error {
					if d > 0 && c.req.Limit.Algorithm == store.LeakyBucket { // it wakes up late
						d += 2 * time.Hour
					}
					return sys.Sleep(ctx, d)
				}}
				if c.taken > 0 {
					if decisions, err := w.Take(t.Context(), c.req); err != nil || !store.AllAllowed(decisions) {
						t.Fatalf("%s: %+v, %v", name, decisions, err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				if end == context.Canceled {
					time.AfterFunc(90*time.Minute, cancel)
				}
				decisions, err := w.Take(ctx, c.req)
				if end == context.Canceled {
					if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, end) || decisions != nil {
						t.Errorf("%s: who left is told %+v, %v", name, decisions, err)
					}
				} else if err != nil || store.AllAllowed(decisions) || decisions[0].Unguarded == c.asked ||
					c.asked != (decisions[0].RetryAfter == time.Microsecond) {
					t.Errorf("%s: at the deadline: %+v, %v", name, decisions, err)
				}
				peeked := make([]store.Decision, 1)
				if err := inner.Decide(t.Context(), store.Peek, []store.Request{c.req}, peeked); err != nil || peeked[0].Used != 0 {
					t.Errorf("%s: in the end %+v, %v", name, peeked, err)
				}
			})
		}
	}
}
