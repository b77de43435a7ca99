package layers

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Failure says how takes and peeks are decided while the store is away. The zero Failure passes errors on.
//
// With the policy [store.LocalOnError] a fallback store decides, mostly in the memory of this process, with a share of
// each limit. So an outage neither stops everything nor lets everything through. The fallback store does not know
// the usage in the store, and the store does not learn the usage in the fallback store. In an outage, each process can
// therefore let through its share of a limit in addition to what the store let through:
//
//	over-admission ≤ processes × share × limit
//
// per period of the limit, where a share is at least 1 unit. With a share of 1 ÷ processes, all fallback stores
// together let through at most one limit.
//
// A fallback store in memory holds 100,000 keys. The keys beyond that share 16,384 more keys for each limit, chosen by
// a hash, so that invented keys cannot fill the memory: some of them are denied sooner.
//
// A cost that fits the limit but never its share is denied, with a RetryAfter of a second, since only the return of
// the store can change that.
type Failure struct {
	Policy store.FailurePolicy
	// Share is the fallback store's part of the count and of the burst of each limit; the default is DefaultShare.
	Share store.Share
	// Fallback decides instead of the store under store.LocalOnError. The caller has to close it. If it fails, the error
	// is the store's, with the fallback store's error in its text.
	Fallback store.Store
}

// failurePolicyStore is the law of [Failure]: while the store is away ([store.IsAway]), the policy decides takes and
// peeks instead of an error. Each such decision says so in DecidedBy, and is Unguarded unless a fallback store made it.
// A call is decided either by the store or by the policy.
//
// Any other error passes through, since a wrong password is not an outage, nor is the end of the caller's own time
// ([store.ErrGaveUp]). So does every error of other operations. Do not refund to the store what the policy let
// through: the store did not charge it, and would give back units of others. Check Decision.DecidedBy. What a
// fallback store charged fades there.
type failurePolicyStore struct {
	store.Store
	Failure
	observer *Observer
}

func newFailurePolicy(backend store.Store, failure Failure, env Env) *failurePolicyStore {
	if failure.Share == 0 {
		failure.Share = store.DefaultShare
	}
	return &failurePolicyStore{backend, failure, env.Observer}
}

// Decide implements [store.Store].
func (s *failurePolicyStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err == nil || op != store.Take && op != store.Peek || !store.IsAway(err) || store.GaveUp(ctx) != nil {
		return err // a caller whose time is over gets no decision
	}
	if s.Policy == store.LocalOnError {
		switch wrong := s.decideLocally(ctx, op, reqs, decisions); {
		case errors.Is(wrong, store.ErrInvalid):
			return wrong // the store would have returned the same
		case wrong != nil: // the store's error says whether it may have charged
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
	s.observer.failed(err)
	return nil
}

// replacedError is the key of the context value for the error that a failure policy replaced.
type replacedError struct{}

// KeepReplaced returns a context for one Decide, which sets replaced to the error of the store if a failure policy
// decided instead. So the caller knows whether the store may have charged.
func KeepReplaced(ctx context.Context, replaced *error) context.Context {
	return context.WithValue(ctx, replacedError{}, replaced)
}

// SettleLocally settles the charges of a local share with the real costs of reqs; decisions say what was charged
// and who decided. It does not change other decisions. backend contains a [Failure].
func SettleLocally(ctx context.Context, backend store.Store, reqs []store.Request, decisions []store.Decision) error {
	s, has := store.As[*failurePolicyStore](backend)
	if !has || s.Policy != store.LocalOnError {
		return nil
	}
	due := map[store.Op][]store.Request{}
	for i, d := range decisions {
		r := reqs[i]
		r.Token, r.TokenTTL = "", 0 // only the store can remember its take
		r.Cost -= d.Granted
		switch {
		case d.DecidedBy != store.DecidedByLocal || r.Cost == 0:
		case r.Cost < 0:
			r.Cost = -r.Cost
			due[store.Refund] = append(due[store.Refund], r)
		default:
			due[store.Charge] = append(due[store.Charge], r)
		}
	}
	for op, reqs := range due {
		if err := s.decideLocally(ctx, op, reqs, make([]store.Decision, len(reqs))); err != nil {
			return err
		}
	}
	return nil
}
