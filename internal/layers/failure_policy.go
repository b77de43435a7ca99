package layers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Failure says what a store that is away ([store.IsAway]) means for takes and peeks. The zero
// Failure passes errors on.
//
// With the policy [store.LocalOnError] a shadow decides while the store is away: a store of
// its own, in the memory of this process unless another is given, with a share of each
// limit. So an outage neither stops everything nor lets everything through. The shadow
// knows nothing of what was used of the store, and the store learns nothing of what the
// shadow let through. In an outage, each process can therefore let through its share of
// a limit beyond what the store had let through:
//
//	over-admission ≤ processes × share × limit
//
// in the time that the limit speaks of, the share being 1 unit at least. With a share of
// 1 ÷ processes, all shadows together let through one limit at most.
//
// A shadow in memory holds 100,000 keys. Others then share what is left of 16,384 more for each
// limit, chosen by a hash, so that invented keys fill no memory: some of them are denied sooner.
//
// A cost that fits the limit but not its share is denied, with a RetryAfter of a second:
// only the store's return can change that.
type Failure struct {
	Policy store.FailurePolicy
	// Share is what the shadow gets of the count and of the burst of each limit;
	// DefaultShare unless said.
	Share store.Share
	// Shadow decides in the store's place under store.LocalOnError; a map in memory unless
	// said, which does not remember tokens: what is asked again is charged again there.
	// Closing it stays the caller's business. If it fails, the error is the store's, with
	// the shadow's in its text.
	Shadow store.Store
	// Clock is the time of the map in memory; time.Now unless said.
	Clock func() time.Time
	// OnFailure, if set, is told each error that the policy replaced by a decision. It
	// may be called concurrently.
	OnFailure func(error)
}

// WithFailure wraps backend so that, while it is away ([store.IsAway]), takes and peeks are
// decided as failure says instead of failing. Each such decision says so in its
// DecidedBy, and is Unguarded unless a local shadow made it. A call is decided by the
// store or by the policy, never partly by each.
//
// Any other error passes through, since a wrong password is not an outage, nor is the
// end of the caller's own time ([store.ErrGaveUp]). So does every error of any
// other operation. Do not refund what the policy let through when the
// store is back: the store did not charge it, and would give back units of others.
// Decision.DecidedBy tells. What a shadow charged fades in the shadow.
//
// The keys are those of backend. Wrap a store once and keep the result: a shadow in memory
// begins empty with each call of WithFailure.
func WithFailure(backend store.Store, failure Failure) store.Store {
	if failure.Policy == store.FailOnError {
		return backend
	}
	if failure.Share == 0 {
		failure.Share = store.DefaultShare
	}
	if failure.Shadow == nil && failure.Policy == store.LocalOnError {
		failure.Shadow = newShadowMap(failure.Clock)
	}
	return store.Wrap(&failurePolicyStore{Store: backend, Failure: failure}, backend)
}

type failurePolicyStore struct {
	store.Store
	Failure
}

// Decide implements [store.Store].
func (s *failurePolicyStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err == nil || op != store.Take && op != store.Peek || !store.IsAway(err) || store.GaveUp(ctx) != nil {
		return err // a caller whose time is over is let in by nobody
	}
	if s.Policy == store.LocalOnError {
		switch wrong := decideLocally(ctx, s.Shadow, s.Share, op, reqs, decisions); {
		case errors.Is(wrong, store.ErrInvalid):
			return wrong // the store would have said the same
		case wrong != nil: // what is known of a charge is what the store's error says
			return fmt.Errorf("%w; deciding locally failed too: %s", err, wrong)
		}
	} else {
		for i := range decisions {
			decisions[i] = store.Decision{
				Allowed: s.Policy == store.AllowOnError, Shadow: reqs[i].Shadow, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy,
			}
		}
	}
	if replaced, asked := ctx.Value(replacedError{}).(*error); asked {
		*replaced = err
	}
	if s.OnFailure != nil {
		s.OnFailure(err)
	}
	return nil
}

// replacedError is the key of a context under which a caller gets the error that a failure policy replaced.
type replacedError struct{}

// KeepReplaced returns a context for one Decide, which sets replaced to the error of the store if a failure policy
// decided in place of it. So a caller knows whether the store may have charged the call.
func KeepReplaced(ctx context.Context, replaced *error) context.Context {
	return context.WithValue(ctx, replacedError{}, replaced)
}

// SettleLocally brings what a local share charged to the real costs of reqs, whose decisions say
// what was charged and by whom. What somebody else decided stays as it is. backend has [WithFailure] in it.
func SettleLocally(ctx context.Context, backend store.Store, reqs []store.Request, decisions []store.Decision) error {
	s, has := store.As[*failurePolicyStore](backend)
	if !has || s.Policy != store.LocalOnError {
		return nil
	}
	var back, missing []store.Request
	for i, d := range decisions {
		r := reqs[i]
		r.Token, r.TokenTTL = "", 0 // the take of it is remembered in the store at most
		r.Cost -= d.Granted
		switch {
		case d.DecidedBy != store.DecidedByLocal || r.Cost == 0:
		case r.Cost < 0:
			r.Cost = -r.Cost
			back = append(back, r)
		default:
			missing = append(missing, r)
		}
	}
	for op, reqs := range map[store.Op][]store.Request{store.Refund: back, store.Charge: missing} {
		if len(reqs) > 0 {
			if err := decideLocally(ctx, s.Shadow, s.Share, op, reqs, make([]store.Decision, len(reqs))); err != nil {
				return err
			}
		}
	}
	return nil
}
