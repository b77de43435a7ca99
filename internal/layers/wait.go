package layers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrNotGivenBack: a caller left while it waited for its turn, and the refund of its charge failed, so the units
// stay charged.
var ErrNotGivenBack = errors.New("what was taken was not given back")

// Waiter is the law of waiting for a turn: units are taken as soon as they fit, by callers of one Waiter in the order
// of their calls, except that nobody waits for one who leaves more. Until then nothing is charged, except by a leaky
// bucket. Only the first calls the store; while that is away everybody does. It is safe for concurrent use.
type Waiter struct {
	// Store decides.
	Store store.Store
	// Bounded: nobody waits whose turn would come too late if all before him stay, so the limit bounds how many wait.
	Bounded bool
	// OnWait, if not nil, gets the length of each wait for units, several times while an operator blocks. A wait
	// behind others comes before that and is not reported, because its length is unknown.
	OnWait func(wait time.Duration)
	// Now and Sleep default to time.Now and a sleep that ends with the context.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error

	turns turns
}

// Take charges all reqs once they fit together, and returns when the caller may go on: at once, after a wait for its
// turn, or after the delay of a leaky bucket.
//
// A denial is no error: the turn would come after ctx's deadline. It comes at once if the store has said so, to this
// caller or to an earlier one with the same cost or less, and otherwise at the deadline, since those before may leave.
// Behind others it says only when to try again. Decisions on limits that were not applied are Unguarded.
//
// If ctx ends while the store is asked or during a delay, the error is a [store.ErrGaveUp] and nothing stays charged,
// unless it is an [ErrNotGivenBack] or a [store.ErrOutcomeUnknown], too.
func (w *Waiter) Take(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	until, _ := ctx.Deadline()
	return w.takeBy(ctx, until, reqs)
}

// TakeWithin is Take with a longest wait instead of a deadline: it interrupts no call of the store. With 0 it takes at
// once, but nothing from those who wait.
func (w *Waiter) TakeWithin(
	ctx context.Context, maxWait time.Duration, reqs ...store.Request,
) ([]store.Decision, error) {
	return w.takeBy(ctx, w.now().Add(maxWait), reqs)
}

func (w *Waiter) takeBy(ctx context.Context, until time.Time, reqs []store.Request) ([]store.Decision, error) {
	p := w.turns.arrive(reqs, until)
	p.bounded = w.Bounded
	defer w.turns.leave(p, nil, time.Time{})
	decisions, err := w.take(ctx, p)
	if err == nil {
		seeEnd(w.Store, p.reqs, decisions)
		return decisions, nil
	}
	if p.last == nil || !errors.Is(err, store.ErrGaveUp) || !errors.Is(ctx.Err(), context.DeadlineExceeded) ||
		errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, ErrNotGivenBack) {
		return nil, err
	}
	for i := range p.last { // its turn came just at the deadline
		age(&p.last[i], w.now().Sub(p.lastAt))
	}
	seeEnd(w.Store, p.reqs, p.last)
	return p.last, nil
}

// take is Take, but returns an error to a caller whose time is over.
func (w *Waiter) take(ctx context.Context, p *waiting) ([]store.Decision, error) {
	repeated, err := w.isRepeated(ctx, p.reqs)
	if err != nil {
		return nil, err
	}
	for ; ; repeated = false {
		if !repeated { // else it was allowed before, and need not wait
			if denial, err := w.awaitTurn(ctx, p); denial != nil || err != nil {
				return denial, err
			}
		}
		decisions, allowed, err := w.ask(ctx, p)
		away := store.IsAway(err) || decidedInAnOutage(decisions)
		if away {
			w.turns.failed(p)
		}
		if err != nil {
			return nil, err
		}
		sum, left := store.Summarize(decisions), w.left(p)
		switch {
		case allowed:
			w.turns.leave(p, decisions, w.now())
			return decisions, w.awaitDelay(ctx, p.reqs, decisions)
		case sum.Unguarded:
			return decisions, nil
		case sum.Allowed:
			return tooLate(decisions, left), nil
		}
		stays := len(sum.DeniedBy) > 0 && sum.RetryAfter <= left
		if !w.turns.denied(p, decisions, w.now(), stays, away) {
			return decisions, nil
		}
		p.last, p.lastAt = decisions, w.now()
	}
}

// isRepeated reports whether the store remembers the token of reqs.
func (w *Waiter) isRepeated(ctx context.Context, reqs []store.Request) (bool, error) {
	if len(reqs) == 0 || reqs[0].Token == "" {
		return false, nil
	}
	decisions, err := w.decide(ctx, store.Peek, reqs)
	return err == nil && store.Summarize(decisions).Repeated, err
}

// awaitTurn returns when p may call the store, or with a denial if its turn does not come in time.
func (w *Waiter) awaitTurn(ctx context.Context, p *waiting) (denial []store.Decision, err error) {
	for slept := false; ; {
		left := w.left(p)
		behind, wait, denial := w.turns.look(p, w.now(), left <= 0 || ctx.Err() != nil)
		switch {
		case denial != nil:
			return denial, nil
		case behind:
			slept = false
			end := time.NewTimer(left)
			select {
			case <-p.wake:
			case <-end.C:
			case <-ctx.Done():
			}
			end.Stop()
			if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return nil, gaveUp(err)
			}
		case slept || wait <= 0 || wait > left: // it is there, or the store says that it comes too late
			return nil, nil
		default:
			if w.OnWait != nil {
				w.OnWait(wait)
			}
			if slices.ContainsFunc(p.last, func(d store.Decision) bool { return isBlocked(&d) }) {
				wait = min(wait, blockedNap)
			}
			if err := w.sleep(ctx, wait); err != nil {
				return nil, err
			}
			slept = true
		}
	}
}

// blockedNap is how long a caller whom an operator blocks sleeps at most: the block may be revoked.
const blockedNap = 10 * time.Second

// ask takes p's requests, unless their delay is longer than what is left of the wait. allowed says that they are
// allowed in time, and charged unless they are Unguarded.
func (w *Waiter) ask(ctx context.Context, p *waiting) (decisions []store.Decision, allowed bool, err error) {
	// A denied take charges nothing, so a peek before it gains nothing. But a leaky bucket can allow a turn that
	// comes too late; a peek avoids its charge.
	isLeaky := func(r store.Request) bool { return r.Limit.Algorithm == store.LeakyBucket }
	for look := !p.until.IsZero() && slices.ContainsFunc(p.reqs, isLeaky); ; look = true {
		if look {
			if decisions, err = w.decide(ctx, store.Peek, p.reqs); err != nil {
				return nil, false, err
			}
			if sum := store.Summarize(decisions); !sum.Allowed || sum.Unguarded || sum.Delay > w.left(p) {
				return decisions, false, nil
			}
		}
		if decisions, err = w.decide(ctx, store.Take, p.reqs); err != nil {
			return nil, false, err
		}
		sum := store.Summarize(decisions)
		if !sum.Allowed || sum.Unguarded || sum.Delay <= w.left(p) {
			return decisions, sum.Allowed, nil
		}
		if sum.Repeated { // its turn comes too late, and stays with the earlier call
			return decisions, false, nil
		}
		// Another caller was faster, and now the turn comes too late. The answer describes the key after the refund.
		if err := w.giveBack(ctx, p.reqs, decisions); err != nil {
			return nil, false, err
		}
	}
}

// awaitDelay waits for the delay of what was taken. If the caller leaves before its turn, it gives the units back.
func (w *Waiter) awaitDelay(ctx context.Context, reqs []store.Request, taken []store.Decision) error {
	if err := w.sleep(ctx, store.Summarize(taken).Delay); err != nil {
		return errors.Join(err, w.giveBack(ctx, reqs, taken))
	}
	return nil
}

// giveBackTimeout bounds the time of a refund for a caller who leaves.
const giveBackTimeout = 5 * time.Second

// giveBack refunds what the store took, although the caller gives up. What a fallback store charged fades there.
func (w *Waiter) giveBack(ctx context.Context, reqs []store.Request, taken []store.Decision) error {
	var back []store.Request
	for i, d := range taken {
		if d.Allowed && !d.Unguarded && d.DecidedBy != store.DecidedByLocal && d.DecidedBy != store.DecidedByOverride {
			back = append(back, reqs[i])
		}
	}
	if len(back) == 0 {
		return nil
	}
	if reqs[0].Token != "" {
		back = reqs // a token is given back as a whole, since the store knows its charge
	}
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if _, err := w.decide(ctx, store.Refund, back); err != nil {
		return fmt.Errorf("%w: %w", ErrNotGivenBack, err)
	}
	return nil
}

// decidedInAnOutage reports whether the store was away, and something else decided. Then there is no order: a cost
// that fits a limit but not its local share would block everybody for the whole outage.
func decidedInAnOutage(decisions []store.Decision) bool {
	return slices.ContainsFunc(decisions, func(d store.Decision) bool {
		return d.DecidedBy == store.DecidedByLocal || d.DecidedBy == store.DecidedByFailurePolicy
	})
}

// tooLate makes a denial of a turn that is further away than the time left.
func tooLate(decisions []store.Decision, left time.Duration) []store.Decision {
	for i := range decisions {
		if d := &decisions[i]; d.Delay > left && !d.Shadow {
			d.Allowed, d.RetryAfter, d.Delay = false, d.Delay-left, 0
		}
	}
	return decisions
}

func (w *Waiter) decide(ctx context.Context, op store.Op, reqs []store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	return decisions, w.Store.Decide(context.WithValue(ctx, waitingKey{}, true), op, reqs, decisions)
}

// left is how long the wait can still be.
func (w *Waiter) left(p *waiting) time.Duration {
	if p.until.IsZero() {
		return 1<<63 - 1
	}
	return p.until.Sub(w.now())
}

func (w *Waiter) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

// sleep returns a [store.ErrGaveUp] if ctx ends first.
func (w *Waiter) sleep(ctx context.Context, d time.Duration) error {
	if w.Sleep != nil {
		return gaveUp(w.Sleep(ctx, d))
	}
	return gaveUp(sys.Sleep(ctx, d))
}

// gaveUp wraps the error that ended a wait.
func gaveUp(err error) error {
	if err == nil || errors.Is(err, store.ErrGaveUp) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrGaveUp, err)
}
