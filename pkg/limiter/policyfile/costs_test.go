package policyfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

const llm = `
policies:
  llm:
    limits:
      - {name: requests, by: [team], limit: 2/366d, cost: 1}
      - {name: tokens, by: [team], limit: 1000/366d, cost: tokens}
`

func tokens(n int64) policy.FieldCost { return policy.FieldCost{Field: "tokens", Units: n} }

// One call takes one request and many tokens, and is settled with the real number of tokens.
func TestARuntimeTakesTheCostOfEachLimit(t *testing.T) {
	policies := newWritten(t, llm).run(memorystore.New())
	red := policy.Attributes{"team": "red"}
	d, err := policies.Take(t.Context(), "llm", red, 1, tokens(1000))
	if err != nil || !d.Allowed() || d.At(0).Used != 1 || d.At(1).Used != 1000 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = policies.Take(t.Context(), "llm", red, 1, tokens(1)); err != nil || d.Allowed() || !d.At(0).Allowed ||
		d.At(1).Allowed {
		t.Errorf("one token too many: %+v, %v", d, err)
	}
	if _, err := policies.Take(t.Context(), "llm", red, 1); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("without tokens: %v", err)
	}
	blue := policy.Attributes{"team": "blue"}
	for _, cost := range []int64{-1, 2} {
		if _, err := policies.Take(t.Context(), "llm", blue, cost, tokens(1)); !errors.Is(err, limiter.ErrInvalid) {
			t.Errorf("cost %d, which no limit takes: %v", cost, err)
		}
	}
	call, err := policies.Call("llm", blue, 1, tokens(900))
	if err != nil {
		t.Fatal(err)
	}
	r, err := call.Limits.Reserve(t.Context(), call.Requests...)
	if err != nil {
		t.Fatal(err)
	}
	costs, err := call.Policy.UnitsOf(1, tokens(250))
	if err != nil || !slices.Equal(costs, []int64{1, 250}) {
		t.Errorf("the costs are %v, %v", costs, err)
	}
	if err := r.Settle(t.Context(), costs...); err != nil {
		t.Error(err)
	}
	if d, err := call.Limits.Peek(t.Context(), call.Requests...); err != nil || d.At(0).Used != 1 ||
		d.At(1).Used != 250 {
		t.Errorf("after it was settled: %+v, %v", d, err)
	}
}

// A reservation is settled with the costs of the policy that made it, even if a reload has changed the order of the
// limits.
func TestAReloadBetweenReservingAndSettling(t *testing.T) {
	f := newWritten(t, llm)
	policies := f.run(memorystore.New())
	red := policy.Attributes{"team": "red"}
	call, err := policies.Call("llm", red, 1, tokens(900))
	if err != nil {
		t.Fatal(err)
	}
	r, err := call.Limits.Reserve(t.Context(), call.Requests...)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(llm, "\n")
	lines[4], lines[5] = lines[5], lines[4]
	f.reload(policies, strings.Join(lines, "\n"))
	costs, err := call.Policy.UnitsOf(1, tokens(250))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context(), costs...); err != nil {
		t.Fatal(err)
	}
	d, err := policies.Take(t.Context(), "llm", red, 1, tokens(1))
	if err != nil || d.At(0).Used != 251 || d.At(1).Used != 2 {
		t.Errorf("%+v, %v; want 251 tokens and 2 requests in use", d, err)
	}
}
