package layers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Failure says how takes and peeks are decided while the store is away. The zero Failure passes errors on.
//
// With [store.LocalOnError] a fallback store decides, with a share of each limit. In an outage all processes together
// let through at most processes × share × limit in each period, where a share is at least 1 unit, in addition to what
// the store let through. A cost that never fits the share is denied.
type Failure struct {
	Policy store.FailurePolicy
	// Share is the fallback store's part of the count and of the burst of each limit; the default is DefaultShare.
	Share store.Share
	// Fallback decides under store.LocalOnError. The caller has to close it. If it fails, the error is the store's.
	Fallback store.Store
}

// FallbackKeys is the most keys in use of a fallback store in memory, so that invented keys cannot fill it.
const FallbackKeys = 100_000

// failurePolicyStore is the law of [Failure]: while the store is away ([store.IsAway]), the policy decides takes and
// peeks. Such a decision is Unguarded unless a fallback store made it. All other errors pass through.
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
func (s *failurePolicyStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
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
				Allowed: s.Policy == store.AllowOnError, Shadow: reqs[i].Shadow, Unguarded: true,
				DecidedBy: store.DecidedByFailurePolicy,
			}
		}
	}
	if replaced, asked := ctx.Value(replacedError{}).(*error); asked {
		*replaced = err
	}
	notify(s.observer, s.observer.OnFailure, err)
	return nil
}

// replacedError is the key of the context value for the error that a failure policy replaced.
type replacedError struct{}

// KeepReplaced returns a context for one Decide, which sets replaced to the error of the store if a failure policy
// decided instead.
func KeepReplaced(ctx context.Context, replaced *error) context.Context {
	return context.WithValue(ctx, replacedError{}, replaced)
}

// shareRetry is the RetryAfter of a cost that its limit can allow but its share never does.
const shareRetry = time.Second

// decideLocally decides reqs with the fallback store, by a share of each limit.
func (s *failurePolicyStore) decideLocally(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	shared := slices.Clone(reqs)
	for i := range shared {
		r := &shared[i]
		// Check the limits first, since a share can make an invalid limit valid.
		if err := r.Normalize(op); err != nil {
			return err
		}
		r.SetLimit(s.Share.Of(r.Limit))
	}
	for i := range shared {
		if r := &shared[i]; (op == store.Take || op == store.Peek) && r.NeverFits(op) {
			// The answer is a denial. A store refuses what can never fit, so peek at it as at a shadow limit.
			r.Shadow, op = true, store.Peek
		}
	}
	if err := s.Fallback.Decide(ctx, op, shared, decisions); err != nil {
		return err
	}
	for i := range decisions {
		d := &decisions[i]
		d.DecidedBy, d.LocalShare = store.DecidedByLocal, s.Share
		if d.Shadow != reqs[i].Shadow {
			d.Shadow, d.RetryAfter = false, shareRetry
		}
	}
	return nil
}
