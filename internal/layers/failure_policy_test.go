package layers_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
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

func TestParseFailurePolicy(t *testing.T) {
	for text, want := range map[string]store.FailurePolicy{
		"fail": store.FailOnError, "allow": store.AllowOnError, "deny": store.DenyOnError, "local": store.LocalOnError,
	} {
		if got, err := store.ParseFailurePolicy(text); err != nil || got != want {
			t.Errorf("%s is read as %d, %v", text, got, err)
		} else if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "open", "Fail", "fail ", "allow\n"} {
		got, err := store.ParseFailurePolicy(text)
		if err == nil || got != store.FailOnError {
			t.Errorf("%q is read as %d, %v", text, got, err)
			continue
		}
		if want := fmt.Sprintf("unknown failure policy %q; it is fail, allow, deny or local", text); err.Error() != want {
			t.Errorf("%q: the error is %q, want %q", text, err, want)
		}
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: no ErrInvalid: %v", text, err)
		}
	}
}

func TestFailurePolicy(t *testing.T) {
	live := context.Background()
	canceled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()

	unavailable := fmt.Errorf("no answer from the server: %w", store.ErrUnavailable)
	unknown := fmt.Errorf("the connection broke: %w", store.ErrOutcomeUnknown)
	foreign := error(&store.ForeignError{StoreKey: "rl:{a}:n", Holds: "a list"})
	joined := errors.Join(errors.New("shard 3"), unavailable)

	for _, test := range []struct {
		name     string
		ctx      context.Context
		op       store.Op
		err      error
		replaced bool // by a policy other than FailOnError
	}{
		{"take", live, store.Take, nil, false},
		{"take, unavailable", live, store.Take, unavailable, true},
		{"peek, unavailable", live, store.Peek, unavailable, true},
		{"refund, unavailable", live, store.Refund, unavailable, false},
		{"take, outcome unknown", live, store.Take, unknown, true},
		{"peek, outcome unknown", live, store.Peek, unknown, true},
		{"refund, outcome unknown", live, store.Refund, unknown, false},
		{"take, joined", live, store.Take, joined, true},
		{"take, refused", live, store.Take, store.ErrRefused, false},
		{"take, invalid", live, store.Take, store.ErrInvalid, false},
		{"take, never fits", live, store.Take, store.ErrNeverFits, false},
		{"take, foreign", live, store.Take, foreign, false},
		{"take, another error", live, store.Take, errors.New("disk full"), false},
		{"take, caller gave up", canceled, store.Take, unavailable, false},
		{"take, caller gave up, unknown", canceled, store.Take, unknown, false},
		{"take, caller out of time", expired, store.Take, unavailable, false},
		{"take, store gave up on", live, store.Take, fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, store.ErrGaveUp), false},
		{"take, gave up but answered", canceled, store.Take, nil, false},
	} {
		for _, policy := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError} {
			t.Run(fmt.Sprintf("%s/%d", test.name, policy), func(t *testing.T) {
				answer := store.Decision{Allowed: true, Used: 3, Remaining: 4, RetryAfter: 5, ResetAfter: 6, Delay: 7, At: 8}
				inner := &fakeStore{err: test.err, decision: answer}
				var told []error
				backend := layers.WithFailure(inner, layers.Failure{Policy: policy,
					OnFailure: func(err error) { told = append(told, err) }})
				reqs := []store.Request{{Key: store.Key{Subject: "a"}, Cost: 1}, {Key: store.Key{Subject: "b"}, Cost: 2}}
				decisions := make([]store.Decision, len(reqs))
				err := backend.Decide(test.ctx, test.op, reqs, decisions)

				wantErr, wantTold, want := test.err, []error(nil), answer
				if test.replaced && policy != store.FailOnError {
					wantErr, wantTold = nil, []error{test.err}
					want = store.Decision{
						Allowed: policy == store.AllowOnError, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy,
					}
				}
				if err != wantErr {
					t.Errorf("the error is %v, not %v", err, wantErr)
				}
				if !slices.Equal(told, wantTold) {
					t.Errorf("told of %v, not of %v", told, wantTold)
				}
				if err == nil && !slices.Equal(decisions, []store.Decision{want, want}) {
					t.Errorf("decided %+v, not %+v", decisions, want)
				}
				if !slices.Equal(inner.ops, []store.Op{test.op}) || !reflect.DeepEqual(inner.reqs, reqs) {
					t.Errorf("the store was asked for %v of %+v", inner.ops, inner.reqs)
				}
			})
		}
	}
}

// A shadow limit stays one if the policy decides, so that it never denies.
func TestFailurePolicyOfAShadow(t *testing.T) {
	backend := layers.WithFailure(&fakeStore{err: store.ErrUnavailable}, layers.Failure{Policy: store.DenyOnError})
	decisions := make([]store.Decision, 2)
	err := backend.Decide(context.Background(), store.Take, []store.Request{{Shadow: true}, {}}, decisions)
	if err != nil || !decisions[0].Shadow || decisions[1].Shadow || decisions[0].Allowed {
		t.Errorf("%+v, %v", decisions, err)
	}
}

// Failures that a local share replaces are reported, too.
func TestFailuresDecidedLocallyAreTold(t *testing.T) {
	var told []error
	away := &fakeStore{err: store.ErrUnavailable}
	backend := layers.WithFailure(away, layers.Failure{Policy: store.LocalOnError, OnFailure: func(err error) { told = append(told, err) }})
	d, err := storecall.New(backend).Take(context.Background(), store.Key{Subject: "u"}, store.Limit{Count: 9, Period: time.Hour}, 1)
	if err != nil || d.DecidedBy != store.DecidedByLocal || !slices.Equal(told, []error{store.ErrUnavailable}) {
		t.Errorf("%+v, %v; told %v", d, err, told)
	}
}

func TestFailurePolicyWithoutCallback(t *testing.T) {
	backend := layers.WithFailure(&fakeStore{err: store.ErrUnavailable}, layers.Failure{Policy: store.AllowOnError})
	decision, err := storecall.New(backend).Take(context.Background(), store.Key{Subject: "a"},
		store.Limit{Count: 1, Period: time.Second}, 1)
	if err != nil || !decision.Allowed || !decision.Unguarded {
		t.Errorf("%+v, %v", decision, err)
	}
}

// Close reaches the store, and its error does not count as an outage.
func TestFailurePolicyCloses(t *testing.T) {
	for _, policy := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError} {
		inner := &fakeStore{err: store.ErrUnavailable}
		if err := layers.WithFailure(inner, layers.Failure{Policy: policy}).Close(); err != store.ErrUnavailable || inner.closed != 1 {
			t.Errorf("policy %d: closed %d times, %v", policy, inner.closed, err)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	kinds := []error{store.ErrInvalid, store.ErrNeverFits, store.ErrUnavailable, store.ErrOutcomeUnknown,
		store.ErrRefused, store.ErrForeign}
	limit := store.Limit{Count: 10, Period: time.Minute}
	ask := func(op store.Op, cost int64) error {
		req := store.Request{Key: store.Key{Subject: "a"}, Limit: limit, Cost: cost}
		return req.Normalize(op)
	}
	for _, test := range []struct {
		err  error
		is   []error
		away bool
		text string
	}{
		{ask(store.Take, 0), []error{store.ErrInvalid}, false, "cost 0 is not positive; it must be 1 or more"},
		{ask(store.Take, 11), []error{store.ErrInvalid, store.ErrNeverFits}, false,
			"cost 11 can never fit limit token-bucket:10/1m, which allows at most 10 at once"},
		{ask(store.Take, 10), nil, false, ""},
		{ask(store.Refund, 11), nil, false, ""},
		{fmt.Errorf("a: %w", store.ErrUnavailable), []error{store.ErrUnavailable}, true, "a: store unavailable"},
		{fmt.Errorf("a: %w", store.ErrOutcomeUnknown), []error{store.ErrOutcomeUnknown}, true, "a: outcome unknown"},
		{store.ErrRefused, []error{store.ErrRefused}, false, "store refused"},
		{fmt.Errorf("a: %w", &store.ForeignError{StoreKey: "rl:{a\n}:n", Holds: "a list"}), []error{store.ErrForeign}, false,
			`a: key "rl:{a\n}:n" holds a list; it was left as it is`},
	} {
		for _, kind := range kinds {
			if got, want := errors.Is(test.err, kind), slices.Contains(test.is, kind); got != want {
				t.Errorf("%v is %v: %t", test.err, kind, got)
			}
		}
		if store.IsAway(test.err) != test.away {
			t.Errorf("%v is an outage: %t", test.err, !test.away)
		}
		if text := strings.TrimPrefix(fmt.Sprint(test.err), "<nil>"); text != test.text {
			t.Errorf("the error is\n  %s\nnot\n  %s", text, test.text)
		}
	}
}
