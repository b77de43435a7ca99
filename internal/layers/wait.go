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

// Waiter takes units as soon as they fit. While it waits for a turn nothing is charged, except by a leaky bucket,
// whose turns are in the order of the charges.
//
// Callers of one Waiter who wait for the same key take turns in the order of their calls, whatever their costs. Only
// one who leaves less than an earlier caller does not wait for it; see [store.Request].Leave.
// Only the first calls the store, when its turn has come, so there are about as many calls as granted units. Of the
// limits of one call, the queue is for the one that makes it wait longest. Callers of other Waiters, of other
// processes, and those who take without waiting are not in this order. While the store is away there is no order:
// everybody calls, so that nobody waits for the time-outs of others.
//
// A Waiter is safe for concurrent use. Do not copy it after its first use.
type Waiter struct {
	// Store decides.
	Store store.Store
	// MaxWait is the longest wait for a turn; 0 means as long as the context lasts.
	MaxWait time.Duration
	// OnWait, if not nil, gets the length of each wait for units. A wait behind others comes before that and is not
	// reported, because its length is unknown.
	OnWait func(wait time.Duration)
	// Now and Sleep default to time.Now and a sleep that ends with the context.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error

	turns turns
}

// Take charges all reqs once they fit together, and returns when the caller may go on: at once, after a wait for its
// turn, or after the delay of a leaky bucket. Callers of one Waiter get their turns in the order of their calls.
//
// A denial is no error: the turn would come after ctx's deadline, or after MaxWait. It comes at once if the store said
// so, to this caller or to an earlier one with the same cost or less. Otherwise it comes at the deadline: if others
// are still before this caller (their number does not matter, since each of them may leave), or if the turn came just
// after the deadline. Such a denial has the store's last answer. If the store never answered this caller, the
// decisions are Unguarded, and so are those on limits that were not applied because the turn for another did not come.
//
// If ctx is cancelled during the wait, the error is a [store.ErrGaveUp] and nothing stays charged; if the refund
// fails, it is an [ErrNotGivenBack], too. If it is unknown at the end whether the units were charged, the error is
// a [store.ErrOutcomeUnknown].
func (w *Waiter) Take(ctx context.Context, reqs ...store.Request) ([]store.Decision, error) {
	var last lastAnswer
	decisions, err := w.take(ctx, reqs, &last)
	if err != nil {
		if denial := last.asDenial(reqs, w.now()); cameTooLate(ctx, err) && !store.AllAllowed(denial) {
			return denial, nil
		}
		return nil, err
	}
	return decisions, nil
}

// take is Take, but returns an error to a caller whose time is over, and sets last to the store's last answer.
func (w *Waiter) take(ctx context.Context, reqs []store.Request, last *lastAnswer) ([]store.Decision, error) {
	until := w.end(ctx)
	if decisions, repeated, err := w.repeat(ctx, reqs, until, last); repeated || err != nil {
		return decisions, err
	}
	p := w.turns.arrive(reqs, until)
	defer w.turns.leave(p)
	for {
		if denial, err := w.awaitTurn(ctx, p); denial != nil || err != nil {
			return denial, err
		}
		decisions, allowed, err := w.ask(ctx, reqs, until)
		if err != nil {
			if store.IsAway(err) {
				w.turns.failed(p)
			}
			return nil, err
		}
		sum, left, away := store.Summarize(decisions), w.left(until), decidedInAnOutage(decisions)
		if away {
			w.turns.failed(p)
		}
		switch {
		case allowed:
			w.turns.granted(p, decisions, w.now())
			return decisions, w.awaitDelay(ctx, reqs, decisions, last)
		case sum.Unguarded:
			return decisions, nil
		case sum.Allowed:
			return tooLate(decisions, left), nil
		}
		stays := len(sum.DeniedBy) > 0 && sum.RetryAfter <= left
		w.turns.denied(p, decisions, w.now(), stays && !away)
		if !stays {
			return decisions, nil
		}
		*last = lastAnswer{decisions, w.now()}
	}
}

// cameTooLate reports whether err says only that ctx's deadline has passed, and nothing was charged.
func cameTooLate(ctx context.Context, err error) bool {
	return errors.Is(err, store.ErrGaveUp) && errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		!errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, ErrNotGivenBack)
}

// lastAnswer is the store's last answer to a caller: a denial, or a take that was given back.
type lastAnswer struct {
	decisions []store.Decision // nil if there is none
	at        time.Time
}

// asDenial returns it as a denial at now.
func (a *lastAnswer) asDenial(reqs []store.Request, now time.Time) []store.Decision {
	if a.decisions == nil {
		decisions := make([]store.Decision, len(reqs))
		for i := range decisions {
			decisions[i].Unguarded, decisions[i].Shadow = true, reqs[i].Shadow
		}
		return decisions
	}
	passed, taken := max(0, now.Sub(a.at).Truncate(time.Microsecond)), store.AllAllowed(a.decisions)
	for i := range a.decisions {
		d := &a.decisions[i]
		if taken && !d.Shadow {
			d.Allowed, d.RetryAfter, d.Delay, d.Granted = false, d.Delay, 0, 0
		}
		if !d.Allowed && d.RetryAfter > 0 {
			d.RetryAfter = max(time.Microsecond, d.RetryAfter-passed)
		}
		d.At, d.ResetAfter = d.At+store.Instant(passed.Microseconds()), max(d.RetryAfter, d.ResetAfter-passed)
	}
	return a.decisions
}

// repeat answers reqs if the store remembers their token. They were allowed then, and need not wait.
func (w *Waiter) repeat(ctx context.Context, reqs []store.Request, until time.Time, last *lastAnswer) (
	decisions []store.Decision, repeated bool, err error,
) {
	if len(reqs) == 0 || reqs[0].Token == "" {
		return nil, false, nil
	}
	if decisions, err = w.decide(ctx, store.Peek, reqs); err != nil || !store.Summarize(decisions).Repeated {
		return nil, false, err
	}
	decisions, allowed, err := w.ask(ctx, reqs, until)
	switch {
	case err != nil:
		return nil, false, err
	case allowed:
		return decisions, true, w.awaitDelay(ctx, reqs, decisions, last)
	case store.Summarize(decisions).Allowed:
		return tooLate(decisions, w.left(until)), true, nil
	}
	return nil, false, nil // it was given back meanwhile
}

// decidedInAnOutage reports whether the store was away, and something else decided. Then there is no order: a cost
// that fits a limit but not its local share would block everybody for the whole outage.
func decidedInAnOutage(decisions []store.Decision) bool {
	return slices.ContainsFunc(decisions, func(d store.Decision) bool {
		return d.DecidedBy == store.DecidedByLocal || d.DecidedBy == store.DecidedByFailurePolicy
	})
}

// awaitTurn returns when p may call the store, or with a denial if its turn does not come in time.
func (w *Waiter) awaitTurn(ctx context.Context, p *place) (denial []store.Decision, err error) {
	for slept := false; ; {
		left := w.left(p.until)
		behind, wait, denial := w.turns.look(ctx, p, w.now(), left <= 0 || ctx.Err() != nil)
		switch {
		case denial != nil:
			return denial, nil
		case behind != nil:
			slept = false
			if err := w.sleep(behind, left); err != nil && behind.Err() == nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return nil, gaveUp(err)
			}
		case slept || wait <= 0 || wait > left: // it is there, or the store says that it comes too late
			return nil, nil
		default:
			if w.OnWait != nil {
				w.OnWait(wait)
			}
			if err := w.sleep(ctx, wait); err != nil {
				return nil, err
			}
			slept = true
		}
	}
}

// ask takes reqs, unless their delay is longer than what is left of the wait. allowed says that they are allowed in
// time, and charged unless they are Unguarded.
func (w *Waiter) ask(ctx context.Context, reqs []store.Request, until time.Time) (decisions []store.Decision, allowed bool, err error) {
	// A denied take charges nothing, so a peek before it gains nothing. But a leaky bucket can allow a turn that
	// comes too late; a peek avoids its charge.
	look := !until.IsZero() && slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Limit.Algorithm == store.LeakyBucket })
	for {
		if look {
			if decisions, err = w.decide(ctx, store.Peek, reqs); err != nil {
				return nil, false, err
			}
			if sum := store.Summarize(decisions); !sum.Allowed || sum.Unguarded || sum.Delay > w.left(until) {
				return decisions, false, nil
			}
		}
		if decisions, err = w.decide(ctx, store.Take, reqs); err != nil {
			return nil, false, err
		}
		sum := store.Summarize(decisions)
		if !sum.Allowed || sum.Unguarded || sum.Delay <= w.left(until) {
			return decisions, sum.Allowed, nil
		}
		if sum.Repeated { // its turn comes too late, and stays with the earlier call
			return decisions, false, nil
		}
		// Another caller was faster, and now the turn comes too late.
		if err := w.giveBack(ctx, reqs, decisions); err != nil {
			return nil, false, err
		}
		look = true // so that the answer describes the key after the refund
	}
}

func (w *Waiter) decide(ctx context.Context, op store.Op, reqs []store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	return decisions, w.Store.Decide(ctx, op, reqs, decisions)
}

// end returns the instant at which the wait must end, zero for none.
func (w *Waiter) end(ctx context.Context) time.Time {
	until, _ := ctx.Deadline()
	if w.MaxWait > 0 {
		if end := w.now().Add(w.MaxWait); until.IsZero() || end.Before(until) {
			return end
		}
	}
	return until
}

// left is how long the wait can still be.
func (w *Waiter) left(until time.Time) time.Duration {
	if until.IsZero() {
		return 1<<63 - 1
	}
	return until.Sub(w.now())
}

// awaitDelay waits for the delay of what was taken. If the caller leaves before its turn, it gives the units back.
func (w *Waiter) awaitDelay(ctx context.Context, reqs []store.Request, taken []store.Decision, last *lastAnswer) error {
	begin := w.now()
	err := w.sleep(ctx, store.Summarize(taken).Delay)
	if err == nil {
		return nil
	}
	*last = lastAnswer{taken, begin}
	return errors.Join(err, w.giveBack(ctx, reqs, taken))
}

// giveBackTimeout bounds the time of a refund for a caller who leaves.
const giveBackTimeout = 5 * time.Second

// giveBack refunds what was taken, although the caller gives up. A shadow limit that would have denied took
// nothing, and neither did what a failure policy or an override let through. What a fallback store charged fades
// there, since the store would give back units of others.
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

// tooLate makes a denial of a turn that is further away than the time left.
func tooLate(decisions []store.Decision, left time.Duration) []store.Decision {
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

// sleep returns a [store.ErrGaveUp] if ctx ends first.
func (w *Waiter) sleep(ctx context.Context, d time.Duration) error {
	wait := sys.Sleep
	if w.Sleep != nil {
		wait = w.Sleep
	}
	return gaveUp(wait(ctx, d))
}

// gaveUp wraps the error that ended a wait.
func gaveUp(err error) error {
	if err == nil || errors.Is(err, store.ErrGaveUp) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrGaveUp, err)
}
