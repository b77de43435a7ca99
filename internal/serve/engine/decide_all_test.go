package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func tenants(name string, onError store.FailurePolicy, count int64) *policy.Policy {
	return &policy.Policy{Name: name, OnError: onError, LocalShare: store.DefaultShare, Limits: []policy.Limit{
		{Limit: limiter.Per("all", count, time.Hour), By: []string{"tenant"}},
	}}
}

func askFor(e *Engine, op store.Op, policyName, tenant string, cost int64) Ask {
	return Ask{Settings: e.Settings(), Op: op, Policy: policyName, Attributes: policy.Attributes{"tenant": tenant},
		Cost: cost}
}

// engineOf returns an engine of these policies.
func engineOf(t *testing.T, backend admin.Keyspace, policies ...*policy.Policy) *Engine {
	e := newEngine(t, backend, "policies: {}", Options{})
	settings := *e.Settings()
	settings.Policies = policies
	e.Replace(&settings)
	return e
}

func TestDecideAllIsAllOrNothing(t *testing.T) {
	var told int
	e := engineOf(t, memorystore.New(), tenants("a", store.FailOnError, 5), tenants("b", store.FailOnError, 2))
	e.options.OnDecision = func(*Ask, *decision.Answer, error, time.Duration) { told++ }
	remaining := func(asks ...Ask) (all []int64) {
		t.Helper()
		answers := make([]decision.Answer, len(asks))
		before := told
		tier.Must(t, e.DecideAll(t.Context(), asks, answers))
		own := 0 // one that has all its keys in common with an earlier one counts there
		for i := range asks {
			same := func(other Ask) bool {
				return other.Policy == asks[i].Policy && maps.Equal(other.Attributes, asks[i].Attributes)
			}
			if !slices.ContainsFunc(asks[:i], same) {
				own++
			}
		}
		if told-before != own {
			t.Errorf("the observer was told of %d asks, and %d differ", told-before, own)
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
		want []int64 // the remaining units; -1 and below for a denial
	}{
		{[]Ask{askFor(e, store.Take, "a", "x", 2), askFor(e, store.Take, "b", "x", 2)}, []int64{3, 0}},
		{[]Ask{askFor(e, store.Take, "a", "x", 2), askFor(e, store.Take, "b", "x", 1)}, []int64{3, -1}},
		{[]Ask{askFor(e, store.Peek, "a", "x", 1), askFor(e, store.Peek, "b", "x", 1)}, []int64{3, -1}},
		{[]Ask{askFor(e, store.Take, "a", "x", 2), askFor(e, store.Take, "a", "x", 2)}, []int64{-4, -4}},
		{[]Ask{askFor(e, store.Take, "a", "x", 1), askFor(e, store.Take, "a", "y", 1),
			askFor(e, store.Take, "a", "x", 2)},
			[]int64{0, 4, 0}},
	} {
		got := remaining(test.asks...)
		for j := range test.want {
			if got[j] != test.want[j] {
				t.Errorf("asks %d: %d remain, not %d", i, got, test.want)
				break
			}
		}
	}
	asks := []Ask{askFor(e, store.Take, "a", "x", 1), askFor(e, store.Take, "none", "x", 1)}
	if err := e.DecideAll(t.Context(), asks, make([]decision.Answer, 2)); !errors.Is(err, ErrUnknownPolicy) {
		t.Errorf("error %v", err)
	}
}

// What can never fit is denied, and tells what is left, without a time to wait. So does the sum of equal asks, and the
// others of a call are answered for what they ask. Nothing is charged.
func TestWhatNeverFitsIsDenied(t *testing.T) {
	backend := &away{Keyspace: memorystore.New()}
	e := engineOf(t, backend, tenants("a", store.FailOnError, 5), tenants("b", store.FailOnError, 2))
	decide := func(asks ...Ask) (text string) {
		t.Helper()
		answers := make([]decision.Answer, len(asks))
		tier.Must(t, e.DecideAll(t.Context(), asks, answers))
		for i := range answers {
			d := &answers[i].Decisions[0]
			text += fmt.Sprintf("%t %d left, %d granted, retry %s, unguarded %t, shadow %t; ", d.Allowed, d.Remaining,
				d.Granted,
				d.RetryAfter, d.Unguarded, d.Shadow)
			if answers[i].Requests[0].Shadow {
				t.Errorf("the request of ask %d became a shadow", i)
			}
		}
		return text
	}
	decide(askFor(e, store.Take, "a", "x", 1), askFor(e, store.Take, "b", "full", 2))
	denied := func(left int) string {
		return fmt.Sprintf("false %d left, 0 granted, retry 0s, unguarded false, shadow false; ", left)
	}
	fits := "true 4 left, 0 granted, retry 0s, unguarded false, shadow false; "
	for i, test := range []struct {
		asks []Ask
		want string
	}{
		{[]Ask{askFor(e, store.Take, "a", "x", 6)}, denied(4)},
		{[]Ask{askFor(e, store.Take, "a", "x", store.MaxCount+1)}, denied(4)},
		{[]Ask{askFor(e, store.Peek, "a", "x", 6)}, denied(4)},
		{[]Ask{askFor(e, store.Take, "a", "x", 3), askFor(e, store.Take, "a", "x", 3)}, denied(4) + denied(4)},
		{[]Ask{askFor(e, store.Take, "a", "x", 4), askFor(e, store.Take, "b", "x", 3)}, fits + denied(2)},
		// 5 do not fit, but could
		{[]Ask{askFor(e, store.Take, "b", "x", 3), askFor(e, store.Take, "a", "x", 5)}, denied(2) + denied(4)},
		{[]Ask{askFor(e, store.Take, "b", "x", 3), askFor(e, store.Take, "b", "full", 1)}, denied(2) + denied(0)},
	} {
		if got := decide(test.asks...); got != test.want {
			t.Errorf("asks %d: %s, want %s", i, got, test.want)
		}
	}
	backend.gone.Store(true)
	unasked := "true 0 left, 0 granted, retry 0s, unguarded true, shadow false; "
	if got := decide(askFor(e, store.Take, "a", "x", 6), askFor(e, store.Take, "b", "x", 1)); got != denied(0)+unasked {
		t.Errorf("without a store: %s", got)
	}
}

// A sum of costs that exceeds the bound of a request is not the caller's mistake.
func TestTheSumOfCostsIsBounded(t *testing.T) {
	shadow := tenants("shadow", store.FailOnError, 5)
	shadow.Limits[0].Shadow = true
	e := engineOf(t, memorystore.New(), shadow)
	for _, op := range []store.Op{store.Take, store.Refund} {
		for _, costs := range [][2]int64{
			{store.MaxCount - 1, 1}, {store.MaxCount, 1}, {store.MaxCount, store.MaxCount}} {
			answers := make([]decision.Answer, 2)
			asks := []Ask{askFor(e, op, "shadow", "x", costs[0]), askFor(e, op, "shadow", "x", costs[1])}
			if err := e.DecideAll(t.Context(), asks, answers); err != nil {
				t.Errorf("%s of %d: %v", op, costs, err)
				continue
			}
			for i := range answers {
				if cost := answers[i].Requests[0].Cost; cost != store.MaxCount {
					t.Errorf("%s of %d: answer %d is for %d units", op, costs, i, cost)
				}
			}
		}
	}
}

// Of several local policies the one with the smallest share decides for all.
func TestTheStrictestFailurePolicyCountsForAll(t *testing.T) {
	backend := &away{Keyspace: memorystore.New()}
	few, many := tenants("few", store.LocalOnError, 10), tenants("many", store.LocalOnError, 10)
	backend.gone.Store(true)
	few.LocalShare, many.LocalShare = store.WholeShare/5, store.WholeShare/2
	e := engineOf(t, backend, few, many, tenants("allow", store.AllowOnError, 8),
		tenants("local", store.LocalOnError, 8),
		tenants("deny", store.DenyOnError, 5), tenants("fail", store.FailOnError, 5))
	for _, test := range []struct {
		one, other string
		want       store.Decider
		allowed    bool
		remaining  int64 // of both
	}{
		{"allow", "local", store.DecidedByLocal, true, 1},
		{"local", "allow", store.DecidedByLocal, true, 1},
		{"few", "many", store.DecidedByLocal, true, 1},
		{"many", "few", store.DecidedByLocal, true, 1},
		{"deny", "local", store.DecidedByFailurePolicy, false, 0},
		{"allow", "deny", store.DecidedByFailurePolicy, false, 0},
		{"deny", "fail", 0, false, 0},
	} {
		answers := make([]decision.Answer, 2)
		err := e.DecideAll(t.Context(), []Ask{askFor(e, store.Take, test.one, test.one+test.other, 1),
			askFor(e, store.Take, test.other, test.one+test.other, 1)}, answers)
		if test.want == 0 {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s and %s: error %v", test.one, test.other, err)
			}
			continue
		}
		tier.Must(t, err)
		for i := range answers {
			if d := answers[i].Decisions[0]; d.DecidedBy != test.want || d.Allowed != test.allowed ||
				d.Remaining != test.remaining {
				t.Errorf("%s and %s: %+v", test.one, test.other, d)
			}
		}
	}
}

// Classes leave their share of limits that an ask gives.
func TestClassesLeaveAShareOfGivenLimits(t *testing.T) {
	p := tenants("a", store.FailOnError, 5)
	p.Limits[0].Classes = policy.Classes{By: "plan", Of: []policy.Class{{Name: "free", Leave: store.WholeShare / 4}}}
	e := engineOf(t, memorystore.New(), p)
	ask := askFor(e, store.Peek, "a", "t", 1)
	ask.Attributes["plan"], ask.Limits = "free", []store.Limit{{Count: 1000, Period: time.Hour}}
	answers := make([]decision.Answer, 1)
	tier.Must(t, e.DecideAll(t.Context(), []Ask{ask}, answers))
	if r := answers[0].Requests[0]; r.Limit.Count != 1000 || r.Leave != 250 {
		t.Errorf("a given limit: %+v", r)
	}
}
