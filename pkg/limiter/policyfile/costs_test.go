package policyfile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
)

const llm = `
policies:
  llm:
    limits:
      - {name: requests, by: [team], limit: 2/1m, cost: 1}
      - {name: tokens, by: [team], limit: 1000/1m, cost: tokens}
`

func tokens(n int64) policy.FieldCost { return policy.FieldCost{Field: "tokens", Units: n} }

// One call takes one request and many tokens, and is settled at the tokens that it really took.
func TestARuntimeTakesTheCostOfEachLimit(t *testing.T) {
	file, err := policyfile.Parse("limitctl.yaml", []byte(llm))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	policies, err := policyfile.NewRuntime(file, memorystore.New(memorystore.WithClock(func() time.Time { return now })))
	if err != nil {
		t.Fatal(err)
	}
	defer policies.Close()
	red := policy.Attributes{"team": "red"}
	d, err := policies.Take(t.Context(), "llm", red, 1, tokens(1000))
	if err != nil || !d.Allowed() || d.At(0).Used != 1 || d.At(1).Used != 1000 {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = policies.Take(t.Context(), "llm", red, 1, tokens(1)); err != nil || d.Allowed() || !d.At(0).Allowed || d.At(1).Allowed {
		t.Errorf("one token too many: %+v, %v", d, err)
	}
	if _, err := policies.Take(t.Context(), "llm", red, 1); !errors.Is(err, limiter.ErrInvalid) {
		t.Errorf("without tokens: %v", err)
	}
	blue := policy.Attributes{"team": "blue"}
	limits, requests, err := policies.Requests("llm", blue, 1, tokens(900))
	if err != nil {
		t.Fatal(err)
	}
	r, err := limits.Reserve(t.Context(), requests...)
	if err != nil {
		t.Fatal(err)
	}
	if _, real, err := policies.Requests("llm", blue, 1, tokens(250)); err != nil || real[0].Cost() != 1 || real[1].Cost() != 250 {
		t.Errorf("%v, %v", real, err)
	} else if err := r.Settle(t.Context(), real[0].Cost(), real[1].Cost()); err != nil {
		t.Error(err)
	}
	if d, err := limits.Peek(t.Context(), requests...); err != nil || d.At(0).Used != 1 || d.At(1).Used != 250 {
		t.Errorf("after it was settled: %+v, %v", d, err)
	}
}
