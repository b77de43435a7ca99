package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

func tenants(name string, onError limiter.FailurePolicy, count int64) *policy.Policy {
	return &policy.Policy{Name: name, OnError: onError, LocalShare: limiter.DefaultShare, Limits: []policy.Limit{
		{Name: "all", By: []string{"tenant"}, Limit: limiter.Limit{Count: count, Period: time.Hour}},
	}}
}

func askFor(op limiter.Op, policyName, tenant string, cost int64) Ask {
	return Ask{Op: op, Policy: policyName, Attributes: policy.Attributes{"tenant": tenant}, Cost: cost}
}

func TestDecideAllIsAllOrNothing(t *testing.T) {
	var told int
	e := New(memorystore.New(), &Settings{Policies: []*policy.Policy{
		tenants("a", limiter.FailOnError, 5), tenants("b", limiter.FailOnError, 2)}},
		Options{Timeout: time.Minute, OnDecision: func(*Ask, *decision.Answer, error, time.Duration) { told++ }})
	defer e.Close()
	remaining := func(asks ...Ask) (all []int64) {
		t.Helper()
		answers := make([]decision.Answer, len(asks))
		before := told
		if err := e.DecideAll(t.Context(), asks, answers); err != nil {
			t.Fatal(err)
		}
		if told-before != len(asks) {
			t.Errorf("the observer was told of %d asks, and there were %d", told-before, len(asks))
		}
		for i := range answers {
			n := answers[i].Decisions[0].Remaining
			if !answers[i].Decisions[0].Allowed {
				n = -1 - n
			}
			all = append(all, n)
		}
		return all
	}
	for i, test := range []struct {
		asks []Ask
		want []int64 // what remains; -1 and below where it is denied
	}{
		{[]Ask{askFor(limiter.Take, "a", "x", 2), askFor(limiter.Take, "b", "x", 2)}, []int64{3, 0}},
		{[]Ask{askFor(limiter.Take, "a", "x", 2), askFor(limiter.Take, "b", "x", 1)}, []int64{3, -1}},
		{[]Ask{askFor(limiter.Peek, "a", "x", 1), askFor(limiter.Peek, "b", "x", 1)}, []int64{3, -1}},
		{[]Ask{askFor(limiter.Take, "a", "x", 2), askFor(limiter.Take, "a", "x", 2)}, []int64{-4, -4}},
		{[]Ask{askFor(limiter.Take, "a", "x", 1), askFor(limiter.Take, "a", "y", 1), askFor(limiter.Take, "a", "x", 2)}, []int64{0, 4, 0}},
	} {
		got := remaining(test.asks...)
		for j := range test.want {
			if got[j] != test.want[j] {
				t.Errorf("asks %d: %d remain, not %d", i, got, test.want)
				break
			}
		}
	}
	asks := []Ask{askFor(limiter.Take, "a", "x", 1), askFor(limiter.Take, "none", "x", 1)}
	if err := e.DecideAll(t.Context(), asks, make([]decision.Answer, 2)); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("error %v", err)
	}
}

// A sum of costs that no request may have is no mistake of those who asked.
func TestTheSumOfCostsIsBounded(t *testing.T) {
	shadow := tenants("shadow", limiter.FailOnError, 5)
	shadow.Limits[0].Shadow = true
	e := New(memorystore.New(), &Settings{Policies: []*policy.Policy{shadow}}, Options{Timeout: time.Minute})
	defer e.Close()
	for _, op := range []limiter.Op{limiter.Take, limiter.Refund} {
		for _, costs := range [][2]int64{{limiter.MaxCount - 1, 1}, {limiter.MaxCount, 1}, {limiter.MaxCount, limiter.MaxCount}} {
			answers := make([]decision.Answer, 2)
			asks := []Ask{askFor(op, "shadow", "x", costs[0]), askFor(op, "shadow", "x", costs[1])}
			if err := e.DecideAll(t.Context(), asks, answers); err != nil {
				t.Errorf("%s of %d: %v", op, costs, err)
				continue
			}
			for i := range answers {
				if cost := answers[i].Requests[0].Cost; cost != limiter.MaxCount {
					t.Errorf("%s of %d: answer %d is for %d units", op, costs, i, cost)
				}
			}
		}
	}
}

// Of several local policies the one with the least share decides for all.
func TestTheLeastLocalShareCountsForAll(t *testing.T) {
	few, many := tenants("few", limiter.LocalOnError, 10), tenants("many", limiter.LocalOnError, 10)
	few.LocalShare, many.LocalShare = limiter.WholeShare/5, limiter.WholeShare/2
	e := New(lost{memorystore.New()}, &Settings{Policies: []*policy.Policy{few, many}}, Options{Timeout: time.Minute})
	defer e.Close()
	for _, names := range [][2]string{{"few", "many"}, {"many", "few"}} {
		answers := make([]decision.Answer, 2)
		asks := []Ask{askFor(limiter.Peek, names[0], "x", 1), askFor(limiter.Peek, names[1], "x", 1)}
		if err := e.DecideAll(t.Context(), asks, answers); err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			if d := answers[i].Decisions[0]; d.Remaining != 2 {
				t.Errorf("%v: %d remain of %s, not 2", names, d.Remaining, names[i])
			}
		}
	}
}

// lost is a store that is away.
type lost struct{ *memorystore.Store }

func (lost) Decide(context.Context, limiter.Op, []limiter.Request, []limiter.Decision) error {
	return limiter.ErrUnavailable
}

func TestTheStrictestFailurePolicyCountsForAll(t *testing.T) {
	e := New(lost{memorystore.New()}, &Settings{Policies: []*policy.Policy{
		tenants("allow", limiter.AllowOnError, 5), tenants("local", limiter.LocalOnError, 8), tenants("deny", limiter.DenyOnError, 5),
		tenants("fail", limiter.FailOnError, 5)}}, Options{Timeout: time.Minute})
	defer e.Close()
	for _, test := range []struct {
		one, other string
		want       limiter.Decider
		allowed    bool
	}{
		{"allow", "local", limiter.DecidedByLocal, true},
		{"local", "allow", limiter.DecidedByLocal, true},
		{"deny", "local", limiter.DecidedByFailurePolicy, false},
		{"allow", "deny", limiter.DecidedByFailurePolicy, false},
		{"deny", "fail", 0, false},
	} {
		answers := make([]decision.Answer, 2)
		err := e.DecideAll(t.Context(), []Ask{askFor(limiter.Take, test.one, test.one+test.other, 1),
			askFor(limiter.Take, test.other, test.one+test.other, 1)}, answers)
		if test.want == 0 {
			if !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("%s and %s: error %v", test.one, test.other, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			if d := answers[i].Decisions[0]; d.DecidedBy != test.want || d.Allowed != test.allowed {
				t.Errorf("%s and %s: %+v", test.one, test.other, d)
			}
		}
	}
}
