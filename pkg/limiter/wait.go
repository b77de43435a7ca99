package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/sleep"
)

// ErrNotGivenBack: a caller left while it waited for its turn, and giving back what had
// been charged for that turn failed, so it stays charged.
var ErrNotGivenBack = errors.New("what was taken was not given back")

// Waiter takes units that do not fit yet as soon as they do. It looks first and charges
// only for a turn that comes in time; while it waits for a turn nothing is charged,
// except by a leaky bucket, whose turns are in the order of the charges.
type Waiter struct {
	// Store decides.
	Store Store
	// Patience is the longest wait for a turn; 0 is as long as the context lasts.
	Patience time.Duration
	// OnWait, if not nil, is told of each wait for a turn how long it is.
	OnWait func(wait time.Duration)
	// Now and Sleep are time.Now and a sleep that ends with the context, unless set.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Wait charges cost units to key under limit once they fit, and returns when the
// caller may go on: at once, after a wait for its turn, or after the delay of a leaky
// bucket. A turn that would come after ctx's deadline is a denial, told at once. When ctx
// ends while Wait waits, its error is returned and nothing stays charged; if that cannot
// be had, the error is an [ErrNotGivenBack] besides.
func (l *Limiter) Wait(ctx context.Context, key Key, limit Limit, cost int64) (Decision, error) {
	decisions, err := l.WaitAll(ctx, Request{Key: key, Limit: limit, Cost: cost})
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// WaitAll is [Limiter.Wait] for several limits that are decided together. The call took
// effect if [AllAllowed] of the decisions.
func (l *Limiter) WaitAll(ctx context.Context, reqs ...Request) ([]Decision, error) {
	return (&Waiter{Store: l.store}).Take(ctx, reqs...)
}

// Take charges all reqs once they fit together, as [Limiter.Wait] describes.
func (w *Waiter) Take(ctx context.Context, reqs ...Request) ([]Decision, error) {
	until := w.end(ctx)
	for {
		// Looking first leaves everything as it is if the turn would come too late.
		decisions, err := w.decide(ctx, Peek, reqs)
		if err != nil {
			return nil, err
		}
		sum, left := Summarize(decisions), w.left(until)
		if sum.Allowed && !sum.Unguarded && sum.Delay <= left {
			if decisions, err = w.decide(ctx, Take, reqs); err != nil {
				return nil, err
			}
			if sum = Summarize(decisions); sum.Allowed && sum.Delay <= left {
				return decisions, w.awaitDelay(ctx, reqs, decisions)
			}
			if sum.Allowed && !sum.Unguarded { // somebody was quicker, and now its turn comes too late
				if err := w.giveBack(ctx, reqs, decisions); err != nil {
					return nil, err
				}
				continue // to the answer of the key as it is left
			}
		}
		switch {
		case sum.Unguarded:
			return decisions, nil
		case sum.Allowed:
			return tooLate(decisions, left), nil
		case sum.RetryAfter > left:
			return decisions, nil
		}
		if w.OnWait != nil {
			w.OnWait(sum.RetryAfter)
		}
		if err := w.sleep(ctx, sum.RetryAfter); err != nil {
			return nil, err
		}
	}
}

func (w *Waiter) decide(ctx context.Context, op Op, reqs []Request) ([]Decision, error) {
	decisions := make([]Decision, len(reqs))
	return decisions, w.Store.Decide(ctx, op, reqs, decisions)
}

// end returns when patience ends, zero for never.
func (w *Waiter) end(ctx context.Context) time.Time {
	until, _ := ctx.Deadline()
	if w.Patience > 0 {
		if end := w.now().Add(w.Patience); until.IsZero() || end.Before(until) {
			return end
		}
	}
	return until
}

// left is what remains of patience.
func (w *Waiter) left(until time.Time) time.Duration {
	if until.IsZero() {
		return 1<<63 - 1
	}
	return until.Sub(w.now())
}

// awaitDelay waits out the delay of what was taken. Who leaves before the turn
// comes does not use it, and gives it back.
func (w *Waiter) awaitDelay(ctx context.Context, reqs []Request, taken []Decision) error {
	err := w.sleep(ctx, Summarize(taken).Delay)
	if err == nil {
		return nil
	}
	return errors.Join(err, w.giveBack(ctx, reqs, taken))
}

// giveBackTimeout bounds how long a caller who leaves waits for the giving back.
const giveBackTimeout = 5 * time.Second

// giveBack refunds what was taken, though the caller gives up. A shadow that would
// have denied took nothing, and neither did what a failure policy let through. What a
// local shadow charged fades there: the store would give back units of others.
func (w *Waiter) giveBack(ctx context.Context, reqs []Request, taken []Decision) error {
	var back []Request
	for i, d := range taken {
		if d.Allowed && !d.Unguarded && d.DecidedBy != DecidedByLocal {
			back = append(back, reqs[i])
		}
	}
	if len(back) == 0 {
		return nil
	}
	ctx, cancel := BudgetContext(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if _, err := w.decide(ctx, Refund, back); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
	}
	return nil
}

// tooLate makes a denial of a turn that is further off than the time left.
func tooLate(decisions []Decision, left time.Duration) []Decision {
	for i := range decisions {
		if d := &decisions[i]; d.Delay > left && !d.Shadow {
			d.Allowed, d.RetryAfter, d.Delay = false, d.Delay-left, 0
		}
	}
	return decisions
}

func (w *Waiter) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

func (w *Waiter) sleep(ctx context.Context, d time.Duration) error {
	if w.Sleep != nil {
		return w.Sleep(ctx, d)
	}
	return sleep.For(ctx, d)
}
