package envoy

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// llmSettings limit a team's requests, tokens and hits, with descriptors of a team and its tokens.
func llmSettings() *engine.Settings {
	limit := func(name string, count int64, cost policy.Cost) policy.Limit {
		return policy.Limit{Limit: limiter.Per(name, count, 366*24*time.Hour), By: []string{"team"}, Cost: cost}
	}
	return &engine.Settings{File: configfile.File{
		Policies: []*policy.Policy{{Name: "llm", Limits: []policy.Limit{
			limit("requests", 9, policy.Cost{Units: 1}), limit("tokens", 1000, policy.Cost{Field: "tokens"}),
			limit("hits", 100, policy.Cost{}),
		}}},
		Envoy: configfile.EnvoyDomains{"edge": {{Policy: "llm", Entries: []configfile.EnvoyEntry{
			{Key: "team", Attribute: "team"}, {Key: "tokens", Attribute: "tokens"}}}}},
	}}
}

// askFor sends descriptors of a team with those tokens, and returns whether one is denied, and the usage after
// that.
func askFor(t *testing.T, hits uint32, tokens ...string) (denied bool, used [3]int64) {
	t.Helper()
	settings, backend := llmSettings(), memorystore.New()
	defer backend.Close()
	e := engine.New(backend, settings, engine.Options{Timeout: time.Minute})
	defer e.Close()
	request := &rls.Request{Domain: "edge", Hits: hits}
	for _, text := range tokens {
		entries := []rls.Entry{{Key: "team", Value: "red"}, {Key: "tokens", Value: text}}
		request.Descriptors = append(request.Descriptors, rls.Descriptor{Entries: entries})
	}
	calls, err := callsOf(request, newIndex(e.Settings()))
	if err == nil {
		err = (&listener{engine: e}).decide(t.Context(), calls)
	}
	if err != nil || len(calls) != len(tokens) {
		t.Fatalf("%q: %d calls, %v", tokens, len(calls), err)
	}
	for _, call := range calls {
		denied = denied || call.denied
	}
	reqs, _, err := settings.Policies[0].Prepare().AppendRequests(nil, nil, policy.Attributes{"team": "red"}, 1,
		policy.FieldCost{Field: "tokens", Units: 1})
	if err != nil {
		t.Fatal(err)
	}
	decisions := make([]store.Decision, len(reqs))
	if err := backend.Decide(t.Context(), store.Peek, reqs, decisions); err != nil {
		t.Fatal(err)
	}
	return denied, [3]int64{decisions[0].Used, decisions[1].Used, decisions[2].Used}
}

// An entry of a descriptor can be the cost of a limit. hits_addend is the cost for limits without their own.
func TestCostsOfDescriptors(t *testing.T) {
	for _, test := range []struct {
		tokens string
		hits   uint32
		denied bool
		used   [3]int64
	}{
		{"1000", 7, false, [3]int64{1, 1000, 7}},
		{"1001", 7, true, [3]int64{}}, // it can never fit
		{"0", 0, false, [3]int64{1, 1, 1}},
		{"-1", 1, true, [3]int64{}}, // an invalid number does not avoid the limits
		{"many", 1, true, [3]int64{}},
	} {
		if denied, used := askFor(t, test.hits, test.tokens); denied != test.denied || used != test.used {
			t.Errorf("%q and %d hits: denied %t, %v are used, not %v", test.tokens, test.hits, denied, used, test.used)
		}
	}
}
