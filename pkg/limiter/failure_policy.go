package limiter

import (
	"context"
)

// FailurePolicy says what a store that is away means for the caller.
type FailurePolicy uint8

const (
	// FailOnError passes the error on; the caller decides.
	FailOnError FailurePolicy = iota
	// AllowOnError lets requests through unguarded ("fail open").
	AllowOnError
	// DenyOnError turns requests away ("fail closed").
	DenyOnError
)

// String returns the policy's name: "fail", "allow" or "deny".
func (p FailurePolicy) String() string {
	switch p {
	case AllowOnError:
		return "allow"
	case DenyOnError:
		return "deny"
	default:
		return "fail"
	}
}

// ParseFailurePolicy reads "fail", "allow" or "deny".
func ParseFailurePolicy(text string) (FailurePolicy, error) {
	switch text {
	case "fail":
		return FailOnError, nil
	case "allow":
		return AllowOnError, nil
	case "deny":
		return DenyOnError, nil
	}
	return 0, Invalidf("unknown failure policy %q; it is fail, allow or deny", text)
}

// WithFailurePolicy wraps store so that, when it is away ([IsAway]), takes and
// peeks are decided by policy instead of failing; their decisions are
// Unguarded. Any other error passes through, since a wrong password is not an outage, nor
// is the end of the caller's own time ([ErrGaveUp]). So does every error of any
// other operation. onFailure, if not nil, is told each error
// that policy replaced and may be called concurrently. The keys are those of store.
func WithFailurePolicy(store Store, policy FailurePolicy, onFailure func(error)) Store {
	if policy == FailOnError {
		return store
	}
	return KeepKeyspace(&failurePolicyStore{Store: store, policy: policy, onFailure: onFailure}, store)
}

type failurePolicyStore struct {
	Store
	policy    FailurePolicy
	onFailure func(error)
}

func (s *failurePolicyStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err == nil || op != Take && op != Peek || !IsAway(err) || GaveUp(ctx) != nil {
		return err // a caller whose time is over is let in by nobody
	}
	if s.onFailure != nil {
		s.onFailure(err)
	}
	for i := range decisions {
		decisions[i] = Decision{
			Allowed: s.policy == AllowOnError, Shadow: reqs[i].Shadow, Unguarded: true, DecidedBy: DecidedByFailurePolicy,
		}
	}
	return nil
}
