package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// fakeStore answers every call the same way.
type fakeStore struct {
	err      error
	decision limiter.Decision

	ops    []limiter.Op
	reqs   []limiter.Request
	closed int
}

func (s *fakeStore) Decide(_ context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	s.ops = append(s.ops, op)
	s.reqs = append(s.reqs, reqs...)
	for i := range decisions {
		decisions[i] = s.decision
	}
	return s.err
}

func (s *fakeStore) Close() error { s.closed++; return s.err }

func TestParseFailurePolicy(t *testing.T) {
	for text, want := range map[string]limiter.FailurePolicy{
		"fail": limiter.FailOnError, "allow": limiter.AllowOnError, "deny": limiter.DenyOnError, "local": limiter.LocalOnError,
	} {
		if got, err := limiter.ParseFailurePolicy(text); err != nil || got != want {
			t.Errorf("%s is read as %d, %v", text, got, err)
		} else if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, text := range []string{"", "open", "Fail", "fail ", "allow\n"} {
		got, err := limiter.ParseFailurePolicy(text)
		if err == nil || got != limiter.FailOnError {
			t.Errorf("%q is read as %d, %v", text, got, err)
			continue
		}
		checkOneLine(t, err, fmt.Sprintf("unknown failure policy %q; it is fail, allow, deny or local", text))
	}
}

func TestFailurePolicy(t *testing.T) {
	live := context.Background()
	canceled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Unix(0, 0))
	defer cancel()

	unavailable := fmt.Errorf("no answer from the server: %w", limiter.ErrUnavailable)
	unknown := fmt.Errorf("the connection broke: %w", limiter.ErrOutcomeUnknown)
	foreign := error(&limiter.ForeignError{StoreKey: "rl:{a}:n", Holds: "a list"})
	joined := errors.Join(errors.New("shard 3"), unavailable)

	for _, test := range []struct {
		name     string
		ctx      context.Context
		op       limiter.Op
		err      error
		replaced bool // by a policy other than FailOnError
	}{
		{"take", live, limiter.Take, nil, false},
		{"take, unavailable", live, limiter.Take, unavailable, true},
		{"peek, unavailable", live, limiter.Peek, unavailable, true},
		{"refund, unavailable", live, limiter.Refund, unavailable, false},
		{"take, outcome unknown", live, limiter.Take, unknown, true},
		{"peek, outcome unknown", live, limiter.Peek, unknown, true},
		{"refund, outcome unknown", live, limiter.Refund, unknown, false},
		{"take, joined", live, limiter.Take, joined, true},
		{"take, refused", live, limiter.Take, limiter.ErrRefused, false},
		{"take, invalid", live, limiter.Take, limiter.ErrInvalid, false},
		{"take, never fits", live, limiter.Take, limiter.ErrNeverFits, false},
		{"take, foreign", live, limiter.Take, foreign, false},
		{"take, another error", live, limiter.Take, errors.New("disk full"), false},
		{"take, caller gave up", canceled, limiter.Take, unavailable, false},
		{"take, caller gave up, unknown", canceled, limiter.Take, unknown, false},
		{"take, caller out of time", expired, limiter.Take, unavailable, false},
		{"take, store gave up on", live, limiter.Take, fmt.Errorf("%w: %w", limiter.ErrOutcomeUnknown, limiter.ErrGaveUp), false},
		{"take, gave up but answered", canceled, limiter.Take, nil, false},
	} {
		for _, policy := range []limiter.FailurePolicy{limiter.FailOnError, limiter.AllowOnError, limiter.DenyOnError} {
			t.Run(fmt.Sprintf("%s/%d", test.name, policy), func(t *testing.T) {
				answer := limiter.Decision{Allowed: true, Used: 3, Remaining: 4, RetryAfter: 5, ResetAfter: 6, Delay: 7, At: 8}
				inner := &fakeStore{err: test.err, decision: answer}
				var told []error
				store := limiter.WithFailurePolicy(inner, policy, func(err error) { told = append(told, err) })
				reqs := []limiter.Request{{Key: limiter.Key{Subject: "a"}, Cost: 1}, {Key: limiter.Key{Subject: "b"}, Cost: 2}}
				decisions := make([]limiter.Decision, len(reqs))
				err := store.Decide(test.ctx, test.op, reqs, decisions)

				wantErr, wantTold, want := test.err, []error(nil), answer
				if test.replaced && policy != limiter.FailOnError {
					wantErr, wantTold = nil, []error{test.err}
					want = limiter.Decision{
						Allowed: policy == limiter.AllowOnError, Unguarded: true, DecidedBy: limiter.DecidedByFailurePolicy,
					}
				}
				if err != wantErr {
					t.Errorf("the error is %v, not %v", err, wantErr)
				}
				if !slices.Equal(told, wantTold) {
					t.Errorf("told of %v, not of %v", told, wantTold)
				}
				if err == nil && !slices.Equal(decisions, []limiter.Decision{want, want}) {
					t.Errorf("decided %+v, not %+v", decisions, want)
				}
				if !slices.Equal(inner.ops, []limiter.Op{test.op}) || !reflect.DeepEqual(inner.reqs, reqs) {
					t.Errorf("the store was asked for %v of %+v", inner.ops, inner.reqs)
				}
			})
		}
	}
}

// A shadow's request stays one where the policy answers, so that it denies nobody.
func TestFailurePolicyOfAShadow(t *testing.T) {
	store := limiter.WithFailurePolicy(&fakeStore{err: limiter.ErrUnavailable}, limiter.DenyOnError, nil)
	decisions := make([]limiter.Decision, 2)
	err := store.Decide(context.Background(), limiter.Take, []limiter.Request{{Shadow: true}, {}}, decisions)
	if err != nil || !decisions[0].Shadow || decisions[1].Shadow || decisions[0].Allowed {
		t.Errorf("%+v, %v", decisions, err)
	}
}

// What a share decides locally is told, too.
func TestFailuresDecidedLocallyAreTold(t *testing.T) {
	var told []error
	away := &fakeStore{err: limiter.ErrUnavailable}
	store := limiter.WithFailurePolicy(away, limiter.LocalOnError, func(err error) { told = append(told, err) })
	d, err := limiter.New(store).Take(context.Background(), limiter.Key{Subject: "u"}, limiter.Limit{Count: 9, Period: time.Hour}, 1)
	if err != nil || d.DecidedBy != limiter.DecidedByLocal || !slices.Equal(told, []error{limiter.ErrUnavailable}) {
		t.Errorf("%+v, %v; told %v", d, err, told)
	}
}

func TestFailurePolicyWithoutCallback(t *testing.T) {
	store := limiter.WithFailurePolicy(&fakeStore{err: limiter.ErrUnavailable}, limiter.AllowOnError, nil)
	decision, err := limiter.New(store).Take(context.Background(), limiter.Key{Subject: "a"},
		limiter.Limit{Count: 1, Period: time.Second}, 1)
	if err != nil || !decision.Allowed || !decision.Unguarded {
		t.Errorf("%+v, %v", decision, err)
	}
}

// Closing reaches the store, and what that says is not taken for an outage.
func TestFailurePolicyCloses(t *testing.T) {
	for _, policy := range []limiter.FailurePolicy{limiter.FailOnError, limiter.AllowOnError, limiter.DenyOnError} {
		inner := &fakeStore{err: limiter.ErrUnavailable}
		if err := limiter.WithFailurePolicy(inner, policy, nil).Close(); err != limiter.ErrUnavailable || inner.closed != 1 {
			t.Errorf("policy %d: closed %d times, %v", policy, inner.closed, err)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	kinds := []error{limiter.ErrInvalid, limiter.ErrNeverFits, limiter.ErrUnavailable, limiter.ErrOutcomeUnknown,
		limiter.ErrRefused, limiter.ErrForeign}
	limit := limiter.Limit{Count: 10, Period: time.Minute}
	ask := func(op limiter.Op, cost int64) error {
		req := limiter.Request{Key: limiter.Key{Subject: "a"}, Limit: limit, Cost: cost}
		return req.Normalize(op)
	}
	for _, test := range []struct {
		err  error
		is   []error
		away bool
		text string
	}{
		{ask(limiter.Take, 0), []error{limiter.ErrInvalid}, false, "cost 0 is not positive; it must be 1 or more"},
		{ask(limiter.Take, 11), []error{limiter.ErrInvalid, limiter.ErrNeverFits}, false,
			"cost 11 can never fit limit token-bucket:10/1m, which allows at most 10 at once"},
		{ask(limiter.Take, 10), nil, false, ""},
		{ask(limiter.Refund, 11), nil, false, ""},
		{fmt.Errorf("a: %w", limiter.ErrUnavailable), []error{limiter.ErrUnavailable}, true, "a: store unavailable"},
		{fmt.Errorf("a: %w", limiter.ErrOutcomeUnknown), []error{limiter.ErrOutcomeUnknown}, true, "a: outcome unknown"},
		{limiter.ErrRefused, []error{limiter.ErrRefused}, false, "store refused"},
		{fmt.Errorf("a: %w", &limiter.ForeignError{StoreKey: "rl:{a\n}:n", Holds: "a list"}), []error{limiter.ErrForeign}, false,
			`a: key "rl:{a\n}:n" holds a list; it was left as it is`},
	} {
		for _, kind := range kinds {
			if got, want := errors.Is(test.err, kind), slices.Contains(test.is, kind); got != want {
				t.Errorf("%v is %v: %t", test.err, kind, got)
			}
		}
		if limiter.IsAway(test.err) != test.away {
			t.Errorf("%v is an outage: %t", test.err, !test.away)
		}
		if text := strings.TrimPrefix(fmt.Sprint(test.err), "<nil>"); text != test.text {
			t.Errorf("the error is\n  %s\nnot\n  %s", text, test.text)
		}
	}
}
