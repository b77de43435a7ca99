package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
)

// tokens is the policy of the example's file.
func tokens(t *testing.T) *policy.Policy {
	t.Helper()
	file, err := policyfile.Load("limitctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Policy("tokens")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func used(t *testing.T, limits *limiter.Limiter, team string) []int64 {
	t.Helper()
	reqs, err := tokens(t).Requests(policy.Attributes{"model": "sky-1", "team": team}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for _, req := range reqs {
		d, err := limits.Peek(context.Background(), req.Key, req.Limit, 1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d.Used)
	}
	return all
}

func TestACallCostsWhatItTook(t *testing.T) {
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	limits := limiter.New(memorystore.New(memorystore.WithClock(func() time.Time { return noon })))
	g := &gateway{tokens: tokens(t), limits: limits, model: func(context.Context, string) (string, int64, error) { return "blue", 1500, nil }}
	if answer, err := g.ask(context.Background(), "red", "why?"); err != nil || answer != "blue" {
		t.Fatalf("%q, %v", answer, err)
	}
	if got := used(t, limits, "red"); got[0] != 1500 || got[1] != 1500 {
		t.Errorf("used %v, want 1500 of the team's and of all", got)
	}
	failing := errors.New("the model is away")
	g.model = func(context.Context, string) (string, int64, error) { return "", 0, failing }
	if _, err := g.ask(context.Background(), "red", "why?"); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
	if got := used(t, limits, "red"); got[0] != 1500 {
		t.Errorf("after a call that failed %v are used", got)
	}
}

func TestATeamThatHasSpentItAllWaits(t *testing.T) {
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	g := &gateway{tokens: tokens(t), limits: limiter.New(memorystore.New(memorystore.WithClock(func() time.Time { return noon }))),
		model: func(context.Context, string) (string, int64, error) { return "blue", 4001, nil }}
	var busy errBusy
	for range 24 {
		if _, err := g.ask(context.Background(), "red", "why?"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.ask(context.Background(), "red", "why?"); !errors.As(err, &busy) || busy.retryAfter <= 0 {
		t.Errorf("%v", err)
	}
	if _, err := g.ask(context.Background(), "blue", "why?"); err != nil {
		t.Errorf("another team: %v", err)
	}
}

// away is a store that is gone.
type away struct{ limiter.Store }

func (away) Decide(context.Context, limiter.Op, []limiter.Request, []limiter.Decision) error {
	return limiter.ErrUnavailable
}

// What a failure policy let through is answered, and not settled with a store that is away.
func TestAnOutageTakesNoAnswerAway(t *testing.T) {
	for _, onError := range []limiter.FailurePolicy{limiter.AllowOnError, limiter.LocalOnError} {
		g := &gateway{tokens: tokens(t), limits: limiter.New(limiter.WithFailurePolicy(away{memorystore.New()}, onError, nil)),
			model: func(context.Context, string) (string, int64, error) { return "blue", 1500, nil }}
		if answer, err := g.ask(t.Context(), "red", "why?"); err != nil || answer != "blue" {
			t.Errorf("on_error: %s: %q, %v", onError, answer, err)
		}
	}
}

// A team that an operator has exempted from its own limit still gives back to that of all.
func TestAnExemptedTeamIsSettled(t *testing.T) {
	store := memorystore.New()
	name, _ := limiter.ParsePattern("*team*")
	if _, err := store.SetOverride(t.Context(), limiter.Override{Names: name, Effect: limiter.OverrideExempt}, time.Hour); err != nil {
		t.Fatal(err)
	}
	watch := limiter.WatchOverrides(store, limiter.Overrides{})
	if err := watch.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	limits := limiter.New(watch.Wrap(store))
	g := &gateway{tokens: tokens(t), limits: limits, model: func(context.Context, string) (string, int64, error) { return "blue", 1500, nil }}
	plain := limiter.New(store)
	reqs, err := g.tokens.Requests(policy.Attributes{"model": "sky-1", "team": "red"}, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := plain.Charge(t.Context(), reqs[0].Key, reqs[0].Limit, 100_000); err != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := g.ask(t.Context(), "red", "why?"); err != nil {
		t.Fatal(err)
	}
	if d, err := plain.Peek(t.Context(), reqs[1].Key, reqs[1].Limit, 1); err != nil || d.Used > 1500 {
		t.Errorf("%d of all are used, want 1500 at most, %v", d.Used, err)
	}
}
