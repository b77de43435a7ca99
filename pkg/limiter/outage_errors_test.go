package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// What is known of a charge stays known whatever wraps the store: an error from before the
// request left says that nothing was charged, and any other does not.
func TestWrappersKeepWhatIsKnownOfACharge(t *testing.T) {
	still := func() time.Time { return time.Unix(1_700_000_000, 0) }
	failing := &fakeStore{err: fmt.Errorf("%w: disk full", limiter.ErrRefused)}
	wrappers := map[string]func(limiter.Store) limiter.Store{
		"none":    func(s limiter.Store) limiter.Store { return s },
		"budget":  func(s limiter.Store) limiter.Store { return limiter.WithBudget(s, time.Hour) },
		"breaker": func(s limiter.Store) limiter.Store { return limiter.WithBreaker(s, limiter.Breaker{Clock: still}) },
		"policy fail": func(s limiter.Store) limiter.Store {
			return limiter.WithFailurePolicy(s, limiter.FailOnError, nil)
		},
		"local with a shadow that fails": func(s limiter.Store) limiter.Store {
			return limiter.WithFailure(s, limiter.Failure{Policy: limiter.LocalOnError, Shadow: failing})
		},
		"all": func(s limiter.Store) limiter.Store {
			s = limiter.WithBreaker(limiter.WithBudget(s, time.Hour), limiter.Breaker{Clock: still})
			return limiter.WithFailure(s, limiter.Failure{Policy: limiter.LocalOnError, Shadow: failing})
		},
	}
	kinds := []error{limiter.ErrUnavailable, limiter.ErrOutcomeUnknown, limiter.ErrGaveUp, limiter.ErrRefused, limiter.ErrForeign,
		limiter.ErrInvalid}
	for name, wrap := range wrappers {
		for _, err := range []error{errAway, errUnknown, limiter.ErrGaveUp, fmt.Errorf("%w: %w", limiter.ErrOutcomeUnknown, limiter.ErrGaveUp),
			limiter.ErrRefused, &limiter.ForeignError{}, limiter.ErrNeverFits} {
			store := wrap(&fakeStore{err: err})
			for _, op := range []limiter.Op{limiter.Take, limiter.Refund} {
				got := store.Decide(context.Background(), op, []limiter.Request{asking("u", "10/1h", 1)}, make([]limiter.Decision, 1))
				for _, kind := range kinds {
					if errors.Is(got, kind) != errors.Is(err, kind) {
						t.Errorf("%s, %s: %v became %v, which is %v: %t", name, op, err, got, kind, errors.Is(got, kind))
					}
				}
			}
		}
	}
}

// A call that the store answered is the store's, also if a part of it was away: what was
// not asked stays so, and the shadow is not charged.
func TestAnAnswerWithPartsAwayIsTheStores(t *testing.T) {
	answer := limiter.Decision{Allowed: true, Unguarded: true}
	shadow := &fakeStore{}
	store := limiter.WithFailure(&fakeStore{decision: answer}, limiter.Failure{Policy: limiter.LocalOnError, Shadow: shadow})
	got := decide(t, store, limiter.Take, asking("a", "10/1h", 1), asking("b", "10/1h", 1))
	if !slices.Equal(got, []limiter.Decision{answer, answer}) || len(shadow.ops) != 0 {
		t.Errorf("decided %+v, and the shadow was asked %v", got, shadow.ops)
	}
}
