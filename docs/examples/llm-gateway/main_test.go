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
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// newGateway returns a gateway with the example's file, whose model takes that many tokens.
func newGateway(t *testing.T, backend limiter.Store, took int64, options ...limiter.Option) *gateway {
	t.Helper()
	file, err := policyfile.Load("limitctl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := policyfile.NewRuntime(file, backend, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := policies.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gateway{policies: policies, model: func(context.Context, string) (string, int64, error) {
		return "blue", took, nil
	}}
}

// noon is a store whose clock stands still.
func noon() *memorystore.Store {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	return memorystore.New(memorystore.WithClock(func() time.Time { return now }))
}

func (g *gateway) peek(t *testing.T, team string) limiter.Decisions {
	t.Helper()
	call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": team}, 1)
	if err != nil {
		t.Fatal(err)
	}
	d, err := call.Limits.Peek(t.Context(), call.Requests...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestACallCostsWhatItTook(t *testing.T) {
	g := newGateway(t, noon(), 1500)
	if answer, err := g.ask(t.Context(), "red", "free", "why?"); err != nil || answer != "blue" {
		t.Fatalf("%q, %v", answer, err)
	}
	if d := g.peek(t, "red"); d.At(0).Used != 1500 || d.At(1).Used != 1500 {
		t.Errorf("used %d and %d, want 1500 of the team's and of all", d.At(0).Used, d.At(1).Used)
	}
	failing := errors.New("the model is away")
	g.model = func(context.Context, string) (string, int64, error) { return "", 0, failing }
	if _, err := g.ask(t.Context(), "red", "free", "why?"); !errors.Is(err, failing) {
		t.Errorf("%v", err)
	}
	if d := g.peek(t, "red"); d.At(0).Used != 1500 || d.At(1).Used != 1500 {
		t.Errorf("after a call that failed %d and %d are used", d.At(0).Used, d.At(1).Used)
	}
	ctx, leave := context.WithCancel(t.Context()) // a call is settled also if its caller leaves meanwhile
	g.model = func(context.Context, string) (string, int64, error) { leave(); return "", 700, ctx.Err() }
	if _, err := g.ask(ctx, "red", "free", "why?"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if d := g.peek(t, "red"); d.At(0).Used != 2200 || d.At(1).Used != 2200 {
		t.Errorf("after a caller left %d and %d are used, want 2200", d.At(0).Used, d.At(1).Used)
	}
}

func TestATeamThatHasSpentItAllWaits(t *testing.T) {
	g := newGateway(t, noon(), 4001)
	for range 24 {
		if _, err := g.ask(t.Context(), "red", "free", "why?"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.ask(t.Context(), "red", "free", "why?")
	if denied, is := errors.AsType[*limiter.DeniedError](err); !is || denied.RetryAfter() <= 0 {
		t.Errorf("%v", err)
	}
	if _, err := g.ask(t.Context(), "blue", "free", "why?"); err != nil {
		t.Errorf("another team: %v", err)
	}
}

// away is a store that is away.
type away struct{ limiter.Store }

func (away) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return store.ErrUnavailable
}

// A call that was allowed in an outage is answered, and not settled with a store that is away.
func TestAnOutageTakesNoAnswerAway(t *testing.T) {
	for name, option := range map[string]limiter.Option{"open": limiter.FailOpen(), "local": limiter.FailLocal(0.25)} {
		g := newGateway(t, away{memorystore.New()}, 1500, option)
		if answer, err := g.ask(t.Context(), "red", "free", "why?"); err != nil || answer != "blue" {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
}
