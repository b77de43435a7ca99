package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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
	return &gateway{policies: policies, model: func(context.Context, string) (string, int64, error) { return "blue", took, nil }}
}

// noon is a store whose clock stands still.
func noon() *memorystore.Store {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	return memorystore.New(memorystore.WithClock(func() time.Time { return now }))
}

// limitsOf returns the requests for a call of a team.
func (g *gateway) limitsOf(t *testing.T, team string) (*limiter.Limiter, []limiter.Request) {
	t.Helper()
	call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": team}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return call.Limits, call.Requests
}

func (g *gateway) peek(t *testing.T, team string) limiter.Decisions {
	t.Helper()
	limits, requests := g.limitsOf(t, team)
	d, err := limits.Peek(t.Context(), requests...)
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
}

// If a caller leaves while the model answers, the call is still settled.
func TestACallerWhoLeavesIsSettled(t *testing.T) {
	g := newGateway(t, noon(), 0)
	ctx, leave := context.WithCancel(t.Context())
	g.model = func(context.Context, string) (string, int64, error) { leave(); return "", 700, ctx.Err() }
	if _, err := g.ask(ctx, "red", "free", "why?"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if d := g.peek(t, "red"); d.At(0).Used != 700 || d.At(1).Used != 700 {
		t.Errorf("used %d and %d, want 700", d.At(0).Used, d.At(1).Used)
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

// When the free callers have used all that is for them, paid ones are still served, and do not wait in a queue behind them.
func TestPaidCallersDoNotQueueBehindTheFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, memorystore.New(), 4001)
		free := 0 // calls
		for team := 'a'; ; team++ {
			_, err := g.ask(t.Context(), string(team), "free", "why?")
			if denied, is := errors.AsType[*limiter.DeniedError](err); is && denied.Decisions.DeniedBy()[0] == 1 {
				break // by the limit for all
			} else if err != nil {
				t.Fatal(err)
			}
			free++
			time.Sleep(time.Millisecond)
		}
		if used := g.peek(t, "red").At(1).Used; used > 700_000 || used < 690_000 {
			t.Errorf("free callers have %d of a million in use, want all but 30 %%", used)
		}
		for n := range 5 { // who wait for a unit
			go func() {
				call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": fmt.Sprint(n), "plan": "free"}, 100_000)
				if err == nil {
					err = call.Limits.Wait(t.Context(), call.Requests...)
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		begin := time.Now()
		call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": "red", "plan": "paid"}, 100_000)
		if err == nil {
			err = call.Limits.Wait(t.Context(), call.Requests...)
		}
		if waited := time.Since(begin); err != nil || waited != 0 {
			t.Errorf("a paid caller waited for %s: %v", waited, err)
		}
		time.Sleep(time.Hour) // the free ones have had their turns
	})
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

// A team that an operator has exempted from its own limit still gives back to the limit for all.
func TestAnExemptedTeamIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := memorystore.New()
		name, _ := store.ParsePattern("*team*")
		if _, err := backend.SetOverride(t.Context(), store.Override{Names: name, Effect: store.OverrideExempt}, time.Hour); err != nil {
			t.Fatal(err)
		}
		g := newGateway(t, backend, 1500)
		limits, requests := g.limitsOf(t, "red")
		if _, err := limits.Charge(t.Context(), requests[0].N(100_000)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the overrides have been read
		if d := g.peek(t, "red"); d.At(0).Override == nil {
			t.Fatalf("the team is not exempt: %+v", d.At(0))
		}
		if _, err := g.ask(t.Context(), "red", "free", "why?"); err != nil {
			t.Fatal(err)
		}
		if used := g.peek(t, "red").At(1).Used; used > 1500 {
			t.Errorf("%d of all are used, want 1500 at most", used)
		}
	})
}
