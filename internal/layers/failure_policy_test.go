package layers_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fakeStore answers every call the same way.
type fakeStore struct {
	err      error
	decision store.Decision

	ops    []store.Op
	reqs   []store.Request
	closed int
}

func (s *fakeStore) Decide(_ context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.ops = append(s.ops, op)
	s.reqs = append(s.reqs, reqs...)
	for i := range decisions {
		decisions[i] = s.decision
	}
	return s.err
}

func (s *fakeStore) Close() error { s.closed++; return s.err }

// A policy decides in an outage alone, and not for a caller that gave up. A shadow limit stays one, so that it never
// denies.
func TestFailurePolicy(t *testing.T) {
	live := t.Context()
	canceled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()
	for _, test := range []struct {
		name     string
		ctx      context.Context
		op       store.Op
		err      error
		replaced bool // by a policy other than FailOnError
	}{
		{"take", live, store.Take, nil, false},
		{"take, unavailable", live, store.Take, errAway, true},
		{"peek, unavailable", live, store.Peek, errAway, true},
		{"take, outcome unknown", live, store.Take, errUnknown, true},
		{"refund, outcome unknown", live, store.Refund, errUnknown, false},
		{"adjustment, outcome unknown", live, store.Adjust, errUnknown, false},
		{"take, joined", live, store.Take, errors.Join(errors.New("shard 3"), errAway), true},
		{"take, refused", live, store.Take, store.ErrRefused, false},
		{"take, never fits", live, store.Take, store.ErrNeverFits, false},
		{"take, foreign", live, store.Take, &store.ForeignError{StoreKey: "rl:{a}:n", Holds: "a list"}, false},
		{"take, closed", live, store.Take, store.ErrClosed, false},
		{"take, caller gave up, unknown", canceled, store.Take, errUnknown, false},
		{"take, caller out of time", expired, store.Take, errAway, false},
		{"take, store gave up on", live, store.Take, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, store.ErrGaveUp),
			false},
		{"take, gave up but answered", canceled, store.Take, nil, false},
	} {
		for _, policy := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError,
			store.LocalOnError} {
			t.Run(test.name+"/"+policy.String(), func(t *testing.T) {
				answer := store.Decision{Allowed: true, Used: 3, Remaining: 4, RetryAfter: 5, ResetAfter: 6, Delay: 7,
					At: 8}
				inner := &fakeStore{err: test.err, decision: answer}
				var told []error
				with := layers.Layers{Failure: layers.Failure{Policy: policy, Fallback: memorystore.New()},
					Env: layers.Env{
						Observer: &layers.Observer{OnFailure: func(err error) { told = append(told, err) }}}}
				backend := layers.Stack(inner, with)
				reqs := []store.Request{asking("a", "10/1h", 1), asking("b", "10/1h", 2)}
				reqs[1].Shadow = true
				decisions := make([]store.Decision, len(reqs))
				err := backend.Decide(test.ctx, test.op, reqs, decisions)

				wantErr, wantTold, want := test.err, []error(nil), []store.Decision{answer, answer}
				if test.replaced && policy != store.FailOnError {
					wantErr, wantTold = nil, []error{test.err}
					d := store.Decision{Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}
					d.Allowed = policy == store.AllowOnError
					want = []store.Decision{d, d}
					want[1].Shadow = true
				}
				if err != wantErr {
					t.Errorf("the error is %v, not %v", err, wantErr)
				}
				if !slices.Equal(told, wantTold) {
					t.Errorf("told of %v, not of %v", told, wantTold)
				}
				switch {
				case err != nil:
				case wantTold != nil && policy == store.LocalOnError:
					if d := decisions[0]; !d.Allowed || d.DecidedBy != store.DecidedByLocal || d.Unguarded {
						t.Errorf("decided locally %+v", d)
					}
				case !slices.Equal(decisions, want):
					t.Errorf("decided %+v, not %+v", decisions, want)
				}
				if !slices.Equal(inner.ops, []store.Op{test.op}) || !reflect.DeepEqual(inner.reqs, reqs) {
					t.Errorf("the store was asked for %v of %+v", inner.ops, inner.reqs)
				}
				if err := backend.Close(); err != test.err || inner.closed != 1 {
					t.Errorf("closed %d times, %v", inner.closed, err)
				}
			})
		}
	}
}

// Layers preserve what an error says of a charge: nothing was charged, or it is unknown.
func TestWrappersKeepWhatIsKnownOfACharge(t *testing.T) {
	with := layers.Layers{Breaker: &store.Breaker{}, Budget: time.Hour, Failure: layers.Failure{
		Policy: store.LocalOnError, Fallback: &fakeStore{err: fmt.Errorf("%w: disk full", store.ErrRefused)}}}
	with.Clock = func() time.Time { return time.Unix(1_700_000_000, 0) }
	with.Observer = &layers.Observer{
		OnFailure: func(err error) { t.Errorf("told of %v, which nothing replaced", err) }}
	kinds := []error{store.ErrUnavailable, store.ErrOutcomeUnknown, store.ErrGaveUp, store.ErrRefused, store.ErrForeign,
		store.ErrInvalid, store.ErrClosed}
	for _, err := range []error{
		errAway, errUnknown, store.ErrGaveUp, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, store.ErrGaveUp),
		store.ErrRefused, &store.ForeignError{}, store.ErrNeverFits, store.ErrClosed} {
		backend := layers.Stack(&fakeStore{err: err}, with)
		for _, op := range []store.Op{store.Take, store.Refund} {
			got := backend.Decide(t.Context(), op, []store.Request{asking("u", "10/1h", 1)}, make([]store.Decision, 1))
			for _, kind := range kinds {
				if errors.Is(got, kind) != errors.Is(err, kind) {
					t.Errorf("%s: %v became %v, which is %v: %t", op, err, got, kind, errors.Is(got, kind))
				}
			}
		}
	}
}
