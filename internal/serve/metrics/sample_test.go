package metrics

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A value with * stands for any text, so each value has its own key and no gauge shows them as unused. A long value is looked up by
// the form that it has in keys.
func TestTheShareInUseOfLimitsOfEnvoy(t *testing.T) {
	long := strings.Repeat("long", 50)
	limits := func(name string) *policy.Policy {
		return &policy.Policy{Name: name, Limits: []policy.Limit{
			{Limit: limiter.Per("all", 4, time.Minute), By: []string{"a"}},
		}}
	}
	of := func(name, value string, ordered bool) configfile.EnvoyDescriptor {
		return configfile.EnvoyDescriptor{Policy: name, Ordered: ordered, Entries: []configfile.EnvoyEntry{
			{Key: "k", Value: value, Fixed: true, Attribute: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}}
	}
	descriptors := []configfile.EnvoyDescriptor{of("pattern", "/api/*", true), of("star", "/api/*", false), of("long", long, true)}
	backend := memorystore.New()
	policies := []*policy.Policy{limits("pattern"), limits("star"), limits("long")}
	e, m := observed(t, backend, &engine.Settings{File: configfile.File{Policies: policies,
		Envoy: configfile.EnvoyDomains{"d": descriptors}}})
	for i, value := range []string{"/api/x", "/api/*", long} {
		d := &descriptors[i]
		decide(t, e, &engine.Ask{Op: store.Take, Policy: d.Policy, Attributes: policy.Attributes{"a": d.AttributeOf(value)}, Cost: 2})
	}
	m.sampleOnce(t.Context(), &Sampling{Store: backend, Timeout: time.Minute})
	s, _ := scrape(t, m)
	s.want(t, `limitctl_limit_used_ratio{limit="all",policy="star"}`, .5)
	s.want(t, `limitctl_limit_used_ratio{limit="all",policy="long"}`, .5)
	if value, is := s[`limitctl_limit_used_ratio{limit="all",policy="pattern"}`]; is {
		t.Errorf("a limit with a key for each value has the share %v", value)
	}
}

// The metrics show the used share of limits with one key, and of no others.
func TestTheShareInUseOfLimitsWithOneKey(t *testing.T) {
	fixed, err := httplimit.ParseSource("value:all")
	if err != nil {
		t.Fatal(err)
	}
	client, err := httplimit.ParseSource("client")
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) *policy.Policy {
		return &policy.Policy{Name: name, Limits: []policy.Limit{
			{Limit: limiter.Per("all", 10, time.Minute), By: []string{"everybody"}},
			{Limit: limiter.Per("ip", 10, time.Minute), By: []string{"ip"}},
		}}
	}
	web, mesh, other := named("web"), named("mesh"), named("other")
	settings := &engine.Settings{File: configfile.File{
		Policies: []*policy.Policy{web, mesh, other},
		HTTP: httplimit.Settings{Rules: map[string]httplimit.Rule{
			"web": {Attributes: map[string]httplimit.Source{"everybody": fixed, "ip": client}},
		}},
		Envoy: configfile.EnvoyDomains{"d": {{Policy: "mesh", Entries: []configfile.EnvoyEntry{
			{Key: "k", Value: "all", Fixed: true, Attribute: "everybody"}, {Key: "remote_address", Attribute: "ip"}}}}},
	}}
	backend := &awayStore{Store: memorystore.New()}
	e, m := observed(t, backend, settings)
	attributes := policy.Attributes{"everybody": "all", "ip": "192.0.2.1"}
	decide(t, e, &engine.Ask{Op: store.Take, Policy: "web", Attributes: attributes, Cost: 4})
	m.sampleOnce(t.Context(), &Sampling{Store: backend, Timeout: time.Minute})
	s, _ := scrape(t, m)
	s.want(t, `limitctl_limit_used_ratio{limit="all",policy="web"}`, .4)
	s.want(t, `limitctl_limit_used_ratio{limit="all",policy="mesh"}`, 0)
	if n := len(s); s.sum("limitctl_limit_used_ratio") != .4 {
		t.Errorf("other limits have a share, of %d series", n)
	}
	m.sampleOnce(t.Context(), &Sampling{Store: backend, Timeout: time.Minute})
	again, _ := scrape(t, m)
	again.want(t, `limitctl_limit_used_ratio{limit="all",policy="web"}`, .4) // a peek charges nothing

	backend.gone = true
	m.sampleOnce(t.Context(), &Sampling{Store: backend, Timeout: time.Minute})
	kept, _ := scrape(t, m)
	kept.want(t, `limitctl_limit_used_ratio{limit="all",policy="web"}`, .4) // for a while
	kept.want(t, `limitctl_sample_errors_total`, 1)
}

// awayStore is a store that a test can make unavailable.
type awayStore struct {
	*memorystore.Store
	gone bool
}

func (s *awayStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.gone {
		return store.ErrUnavailable
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// The metrics of an outage: each limit has one outcome, the store's errors and times are counted, and the breaker is shown.
func TestAnOutage(t *testing.T) {
	for onError, outcome := range map[store.FailurePolicy]string{store.FailOnError: "error", store.LocalOnError: "local"} {
		backend, p := &awayStore{Store: memorystore.New()}, login()
		p.OnError = onError
		p.Limits[0].Count, p.Limits[1].Count = 1000, 1000
		e, m := observed(t, backend, &engine.Settings{File: configfile.File{Policies: []*policy.Policy{p},
			Breaker: &store.Breaker{Failures: 3, Pause: time.Hour}}})
		for i := range 17 {
			backend.gone = i >= 10
			err := e.Decide(t.Context(), by(e, ask(store.Take, "192.0.2.1", "a@example.com")), new(decision.Answer))
			if (err != nil) != (backend.gone && onError == store.FailOnError) {
				t.Errorf("%s: error: %v", onError, err)
			}
		}
		s, _ := scrape(t, m)
		for _, limit := range []string{"ip", "email"} {
			s.want(t, fmt.Sprintf(`limitctl_decisions_total{limit=%q,outcome=%q,policy="login"}`, limit, outcome), 7)
			s.want(t, fmt.Sprintf(`limitctl_decisions_total{limit=%q,outcome="allowed",policy="login"}`, limit), 10)
		}
		if sum := s.sum("limitctl_decisions_total"); sum != 34 {
			t.Errorf("%v outcomes, want 2 of each of 17 calls", sum)
		}
		// Three failures open the breaker, and then no call reaches the store.
		s.want(t, `limitctl_store_duration_seconds_count{operation="consume"}`, 13)
		if errs := s.sum("limitctl_store_errors_total"); errs != 3 {
			t.Errorf("%v errors of the store, want 3", errs)
		}
		s.want(t, `limitctl_breaker_state{part="",state="open"}`, 1)
		s.want(t, `limitctl_breaker_changes_total{part="",to="open"}`, 1)
	}
}
