package limiter

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// maxAsks is the number of tries of Reserve while the outcome is unknown.
	maxAsks = 3
	// settleTime is the time budget of a settlement, even if the caller's context ends.
	settleTime = 5 * time.Second
)

// Reservation holds units that were charged before the real cost is known, such as the tokens of a language model.
// Settle it when the cost is known. It is safe for concurrent use.
type Reservation struct {
	limiter  *Limiter
	requests []store.Request // with the token
	// decisions are nil if they are unknown: the outcome was unknown, or the reservation was resumed.
	decisions []store.Decision
	resumed   bool
	// uncharged: the store was away and has certainly charged nothing.
	uncharged bool
	canceled  atomic.Bool
}

// Reserve takes the requests with a token, which it makes unless they have one. A denial is a [*DeniedError]. While
// the outcome is unknown it tries again, and the token prevents a second charge. Settle within ten minutes, or give
// the requests a [Request.Token] with a longer time. With a [LeakyBucket] it takes a turn and does not wait for it:
// see Delay of the reservation's decisions.
//
// If the answer of the store was lost, the reservation is not nil even with an error, an [ErrOutcomeUnknown] or the
// denial of a failure policy, and [Reservation.Cancel] gives back what may have been charged.
func (l *Limiter) Reserve(ctx context.Context, requests ...Request) (*Reservation, error) {
	if err := l.check(ctx, requests); err != nil {
		return nil, err
	}
	asked := stored(requests)
	if asked[0].Token == "" {
		asked = withToken(requests, rand.Text())
	}
	r := &Reservation{limiter: l, requests: asked, decisions: make([]store.Decision, len(asked))}
	var unknown error // of a try whose answer was lost: no later answer undoes its charge
	for asks := 1; ; asks++ {
		var replaced error
		err := l.ask(layers.KeepReplaced(ctx, &replaced), store.Take, asked, r.decisions)
		failed := cmp.Or(err, replaced)
		lost := errors.Is(failed, ErrOutcomeUnknown)
		if lost {
			unknown = failed
		}
		if err == nil {
			r.uncharged = unknown == nil && replaced != nil
			break
		}
		if unknown == nil {
			return nil, err
		}
		if !lost || asks == maxAsks || ctx.Err() != nil {
			r.decisions = nil
			return r, unknown
		}
	}
	if !store.AllAllowed(r.decisions) {
		denied := &DeniedError{DecisionsOf(r.decisions), slices.Clone(requests), false}
		if unknown == nil || !r.mayBeUncharged() { // the store has not charged
			r = nil
		}
		return r, denied
	}
	return r, nil
}

// Resume returns the reservation that another process made of the same requests with token, to settle it here. It
// does not call the store.
func (l *Limiter) Resume(token string, requests ...Request) *Reservation {
	return &Reservation{limiter: l, requests: withToken(requests, token), resumed: true}
}

func withToken(requests []Request, token string) []store.Request {
	asked := stored(requests)
	for i := range asked {
		asked[i].Token = token
		asked[i].SetDefaults()
	}
	return asked
}

// Token returns the token of the reservation, for [Limiter.Resume].
func (r *Reservation) Token() string { return r.requests[0].Token }

// Decisions returns the decisions of Reserve; none if the reservation was resumed.
func (r *Reservation) Decisions() Decisions { return DecisionsOf(r.decisions) }

// Settle replaces the estimate of each request with its real cost, in the order of the requests: it charges what is
// missing, even if it does not fit, and gives back what is too much. A cost of 0 gives all back. It continues for
// some seconds after ctx is cancelled.
//
// It settles what the store charged, if anything: the estimate stays in a local share. To settle again with the same
// costs changes nothing; with others it is an [ErrInvalid]. If the store no longer remembers the token, the error is
// an [ErrUnknownToken]. After any other error it can be called again.
func (r *Reservation) Settle(ctx context.Context, costs ...int64) error {
	if len(costs) != len(r.requests) {
		return store.Invalidf("%d costs for %d requests; give one for each, in their order", len(costs),
			len(r.requests))
	}
	requests := slices.Clone(r.requests)
	for i := range requests {
		requests[i].Cost = costs[i]
	}
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if r.uncharged {
		return nil
	}
	err := r.limiter.ask(ctx, store.Settle, requests, make([]store.Decision, len(requests)))
	if errors.Is(err, ErrUnknownToken) && r.mayBeUncharged() {
		return nil
	}
	return err
}

// Cancel gives everything back and forgets the token, so that a new reservation with it is charged. After a Settle at
// another cost than 0 it returns an [ErrInvalid], and that cost stays charged. A second Cancel does nothing, and
// neither does one of a nil Reservation.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r == nil || r.canceled.Load() {
		return nil
	}
	if err := r.Settle(ctx, make([]int64, len(r.requests))...); err != nil {
		return err
	}
	if !r.uncharged { // otherwise the token has no charge, and the refund only forgets it
		ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		if err := r.limiter.ask(ctx, store.Refund, slices.Clone(r.requests),
			make([]store.Decision, len(r.requests))); err != nil {
			return err
		}
	}
	r.canceled.Store(true)
	return nil
}

// mayBeUncharged reports whether the store may not know the token, because it did not decide or nobody knows
// whether it did.
func (r *Reservation) mayBeUncharged() bool {
	if r.decisions == nil {
		return !r.resumed
	}
	return slices.ContainsFunc(r.decisions, func(d store.Decision) bool { return d.DecidedBy != store.DecidedByStore })
}
