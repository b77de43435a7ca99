package limiter

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// maxAsks is how often Reserve asks while the outcome is unknown.
	maxAsks = 3
	// settleTime is how long settling may take, whatever became of the caller's context.
	settleTime = 5 * time.Second
)

// Reservation is units that were taken before the real cost is known, such as the tokens of a
// language model. Settle it when the cost is known. It is safe for concurrent use.
type Reservation struct {
	limiter  *Limiter
	requests []store.Request // with the token
	// decisions are nil if they are not known: the outcome was unknown, or the reservation is resumed.
	decisions []store.Decision
	resumed   bool
	// uncharged: the store has certainly charged nothing, since it was away.
	uncharged bool
	canceled  atomic.Bool

	mu sync.Mutex
	// settled are the costs at which the local share was settled.
	settled []int64
}

// Reserve takes the requests under a token of its own, unless they have one. A denial is a [*DeniedError]. While the
// outcome is unknown it asks again, which charges nothing twice. Of a [LeakyBucket] it takes a turn, and does not wait for
// it: see Delay of the reservation's decisions.
//
// If the error is an [ErrOutcomeUnknown] in the end, the reservation is not nil all the same, and
// [Reservation.Cancel] gives back what may have been charged.
func (l *Limiter) Reserve(ctx context.Context, requests ...Request) (*Reservation, error) {
	asked, err := l.asked(ctx, requests)
	if err != nil {
		return nil, err
	}
	if asked[0].Token == "" {
		token := rand.Text()
		for i := range asked {
			asked[i].Token = token
			asked[i].SetDefaults()
		}
	}
	r := &Reservation{limiter: l, requests: asked, decisions: make([]store.Decision, len(asked))}
	for asks := 1; ; asks++ {
		var replaced error
		err = l.ask(layers.KeepReplaced(ctx, &replaced), store.Take, asked, r.decisions)
		if err == nil {
			r.uncharged = replaced != nil && !errors.Is(replaced, ErrOutcomeUnknown)
			break
		}
		if !errors.Is(err, ErrOutcomeUnknown) {
			return nil, err
		}
		if asks == maxAsks || ctx.Err() != nil {
			r.decisions = nil
			return r, err
		}
	}
	if !store.AllAllowed(r.decisions) {
		return nil, &DeniedError{Decisions: DecisionsOf(r.decisions)}
	}
	return r, nil
}

// Resume returns the reservation that another process made of the same requests under token, to
// settle it here. It asks nothing.
func (l *Limiter) Resume(token string, requests ...Request) *Reservation {
	r := &Reservation{limiter: l, requests: make([]store.Request, len(requests)), resumed: true}
	for i := range requests {
		r.requests[i] = requests[i].asked
		r.requests[i].Token = token
		r.requests[i].SetDefaults()
	}
	return r
}

// Token returns the token of the reservation, for [Limiter.Resume].
func (r *Reservation) Token() string {
	if r == nil || len(r.requests) == 0 {
		return ""
	}
	return r.requests[0].Token
}

// Decisions returns the answers by which the units were taken; none if the reservation was resumed.
func (r *Reservation) Decisions() Decisions {
	if r == nil {
		return Decisions{}
	}
	return DecisionsOf(r.decisions)
}

// Settle brings each request to its real cost, in the order of the requests: it charges what is
// missing, whether it fits or not, and gives back what is too much. A cost of 0 gives all back. It goes on
// for some seconds when ctx is cancelled.
//
// It is right whoever decided: what an override or a failure policy let through stays uncharged, and what a local
// share charged is settled there, too. Settling again at the same costs changes nothing; at others it is an
// [ErrInvalid]. If the token is not remembered any more, it is an [ErrUnknownToken]. After any
// other error it can be called again.
func (r *Reservation) Settle(ctx context.Context, costs ...int64) error {
	if r == nil || r.limiter == nil {
		return store.Invalidf("the reservation is nil; nothing was taken")
	}
	if len(costs) != len(r.requests) {
		return store.Invalidf("%d costs for %d requests; give one for each, in their order", len(costs), len(r.requests))
	}
	requests := slices.Clone(r.requests)
	for i := range requests {
		requests[i].Cost = costs[i]
	}
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := r.settleLocally(ctx, requests, costs); err != nil {
		return err
	}
	if r.uncharged {
		return nil
	}
	err := r.limiter.ask(ctx, store.Settle, requests, make([]store.Decision, len(requests)))
	if errors.Is(err, ErrUnknownToken) && r.mayBeUncharged() {
		return nil
	}
	return err
}

// Cancel gives everything back and forgets the token, so that who reserves again with it is charged again. After a Settle it
// is an [ErrInvalid], and what was settled stays charged. Canceling again does nothing.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r == nil || r.canceled.Load() {
		return nil
	}
	if err := r.Settle(ctx, make([]int64, len(r.requests))...); err != nil {
		return err
	}
	if !r.uncharged { // then nothing is charged any more under the token, and a refund only forgets it
		ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		if err := r.limiter.ask(ctx, store.Refund, slices.Clone(r.requests), make([]store.Decision, len(r.requests))); err != nil {
			return err
		}
	}
	r.canceled.Store(true)
	return nil
}

// mayBeUncharged reports whether somebody else than the store decided, or nobody knows who did, so that the store may
// know nothing of the token.
func (r *Reservation) mayBeUncharged() bool {
	if r.decisions == nil {
		return !r.resumed
	}
	return slices.ContainsFunc(r.decisions, func(d store.Decision) bool { return d.DecidedBy != store.DecidedByStore })
}

// settleLocally settles what a local share decided, once.
func (r *Reservation) settleLocally(ctx context.Context, requests []store.Request, costs []int64) error {
	if !slices.ContainsFunc(r.decisions, func(d store.Decision) bool { return d.DecidedBy == store.DecidedByLocal }) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled != nil {
		if !slices.Equal(r.settled, costs) {
			return store.Invalidf("the reservation was settled at %v before; settle it at the same costs", r.settled)
		}
		return nil
	}
	if err := layers.SettleLocally(ctx, r.limiter.stacked, requests, r.decisions); err != nil {
		return err
	}
	r.settled = slices.Clone(costs)
	return nil
}
