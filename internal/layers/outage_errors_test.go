package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Layers preserve whether a charge is possible: after an error from before the sending nothing was charged, and
// after any other it is unknown.
func TestWrappersKeepWhatIsKnownOfACharge(t *testing.T) {
	still := func() time.Time { return time.Unix(1_700_000_000, 0) }
	failing := &fakeStore{err: fmt.Errorf("%w: disk full", store.ErrRefused)}
	wrappers := map[string]func(store.Store) store.Store{
		"none":    func(s store.Store) store.Store { return s },
		"budget":  func(s store.Store) store.Store { return store.WithBudget(s, time.Hour) },
		"breaker": func(s store.Store) store.Store { return layers.WithBreaker(s, layers.Breaker{Clock: still}) },
		"policy fail": func(s store.Store) store.Store {
			return layers.WithFailure(s, layers.Failure{Policy: store.FailOnError})
		},
		"local with a fallback store that fails": func(s store.Store) store.Store {
			return layers.WithFailure(s, layers.Failure{Policy: store.LocalOnError, Fallback: failing})
		},
		"all": func(s store.Store) store.Store {
			s = layers.WithBreaker(store.WithBudget(s, time.Hour), layers.Breaker{Clock: still})
			return layers.WithFailure(s, layers.Failure{Policy: store.LocalOnError, Fallback: failing})
		},
	}
	kinds := []error{store.ErrUnavailable, store.ErrOutcomeUnknown, store.ErrGaveUp, store.ErrRefused, store.ErrForeign,
		store.ErrInvalid}
	for name, wrap := range wrappers {
		for _, err := range []error{errAway, errUnknown, store.ErrGaveUp, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, store.ErrGaveUp),
			store.ErrRefused, &store.ForeignError{}, store.ErrNeverFits} {
			backend := wrap(&fakeStore{err: err})
			for _, op := range []store.Op{store.Take, store.Refund} {
				got := backend.Decide(context.Background(), op, []store.Request{asking("u", "10/1h", 1)}, make([]store.Decision, 1))
				for _, kind := range kinds {
					if errors.Is(got, kind) != errors.Is(err, kind) {
						t.Errorf("%s, %s: %v became %v, which is %v: %t", name, op, err, got, kind, errors.Is(got, kind))
					}
				}
			}
		}
	}
}

// If the store answered a call although one of its shards was away, that is the answer, and the fallback store is not
// charged.
func TestAnAnswerWithPartsAwayIsTheStores(t *testing.T) {
	answer := store.Decision{Allowed: true, Unguarded: true}
	fallback := &fakeStore{}
	backend := layers.WithFailure(&fakeStore{decision: answer}, layers.Failure{Policy: store.LocalOnError, Fallback: fallback})
	got := decide(t, backend, store.Take, asking("a", "10/1h", 1), asking("b", "10/1h", 1))
	if !slices.Equal(got, []store.Decision{answer, answer}) || len(fallback.ops) != 0 {
		t.Errorf("decided %+v, and the fallback store was asked %v", got, fallback.ops)
	}
}
