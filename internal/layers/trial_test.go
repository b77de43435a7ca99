package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// trialRig is a store with trials, over one that records its calls.
type trialRig struct {
	store.Store
	t     *testing.T
	inner *recorder
	mu    sync.Mutex
	told  []string // how each take was judged
}

// recorder records the keys of calls.
type recorder struct {
	store.Store
	mu     sync.Mutex
	calls  []string
	fails  func(reqs []store.Request) error // nil for never
	shards bool                             // each subject has its own
	wait   chan struct{}                    // calls without a "x/" limit wait for it
}

func (r *recorder) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	call := op.String()
	for i := range reqs {
		call += " " + reqs[i].Key.Name
		if reqs[i].Shadow {
			call += "?"
		}
	}
	r.mu.Lock()
	r.calls = append(r.calls, call)
	fails, wait := r.fails, r.wait
	r.mu.Unlock()
	if fails != nil {
		if err := fails(reqs); err != nil {
			return err
		}
	}
	if wait != nil && strings.HasSuffix(reqs[0].Key.Name, store.NextSuffix) {
		<-wait
	}
	return r.Store.Decide(ctx, op, reqs, decisions)
}

func (r *recorder) Shard(key store.Key) string {
	if r.shards {
		return key.Subject
	}
	return ""
}

func newTrialRig(t *testing.T) *trialRig {
	inner := &recorder{Store: memorystore.New()}
	r := &trialRig{t: t, inner: inner}
	r.Store = layers.WithTrials(inner)
	return r
}

// oneUnit returns a request for one unit.
func oneUnit(subject, name, limit string) store.Request {
	parsed, err := store.ParseLimit(limit)
	if err != nil {
		panic(err)
	}
	return store.Request{Key: store.Key{Subject: subject, Name: name}, Limit: parsed, Cost: 1}
}

// call decides reqs beside next, and returns what was allowed.
func (r *trialRig) call(op store.Op, reqs []store.Request, next ...store.Request) (bool, error) {
	r.t.Helper()
	reqs = slices.Clone(reqs)
	judged := func(_ *store.Trial, _ []store.Request, decisions []store.Decision, next []bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, fmt.Sprint(store.AllAllowed(decisions), next))
	}
	reqs[0].Trial = &store.Trial{Requests: next, Judged: judged}
	decisions := make([]store.Decision, len(reqs))
	err := r.Decide(context.Background(), op, reqs, decisions)
	return store.AllAllowed(decisions), err
}

// expect checks the calls of the inner store and the judgements since the last time.
func (r *trialRig) expect(what, calls, told string) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inner.mu.Lock()
	defer r.inner.mu.Unlock()
	if got := strings.Join(r.inner.calls, "; "); got != calls {
		r.t.Errorf("%s: the store got %q, want %q", what, got, calls)
	}
	if got := strings.Join(r.told, "; "); got != told {
		r.t.Errorf("%s: told %q, want %q", what, got, told)
	}
	r.inner.calls, r.told = nil, nil
}

// What shares the usage of the call is judged on its answer, without another call and without a charge: by the unit, and
// also if the call is denied.
func TestSharedUsageIsJudgedOnTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrialRig(t)
		in, next := []store.Request{oneUnit("u", "x/a", "fixed-window:4/1h")}, oneUnit("u", "x/a", "fixed-window:2/1h")
		for _, want := range []string{"true [true]", "true [true]", "true [false]", "true [false]", "false [false]"} {
			r.call(store.Take, in, next)
			r.expect("less for all", "take x/a", want)
		}
		more := oneUnit("u", "x/a", "fixed-window:5/1h")
		r.call(store.Take, in, more)
		r.expect("more for all", "take x/a", "false [true]")
		more.Cost = 2
		r.call(store.Take, in, more)
		r.expect("more, at a higher cost", "take x/a", "false [false]")
		more.Cost, more.Leave = 1, 1
		r.call(store.Take, in, more)
		r.expect("more, of which one is left to others", "take x/a", "false [false]")
		for op, call := range map[store.Op]string{store.Peek: "peek x/a", store.Refund: "refund x/a", store.Charge: "charge x/a"} {
			r.call(op, in, next)
			r.expect("what is no take", call, "")
		}
	})
}

// What counts apart is decided in the same call as a shadow, is charged if the call is allowed, and is not seen by the caller.
func TestWhatCountsApartIsInTheSameCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrialRig(t)
		in, next := []store.Request{oneUnit("u", "x/a", "fixed-window:3/1h")}, oneUnit("u", "x/a~next", "sliding-log:2/1h")
		for _, want := range []string{"true [true]", "true [true]", "true [false]", "false [false]"} {
			if allowed, err := r.call(store.Take, in, next); err != nil || fmt.Sprint(allowed) != strings.Fields(want)[0] {
				t.Errorf("the caller gets %t, %v", allowed, err)
			}
			r.expect("together", "take x/a x/a~next?", want)
		}
		more := oneUnit("u", "x/a~next", "sliding-log:3/1h")
		r.call(store.Take, in, more)
		r.expect("a denied call charges nothing", "take x/a x/a~next?", "false [true]")
	})
}

// No call fails because of a trial: what the store refuses is left out from then on, and the call is decided without it.
func TestARefusedTrialFailsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrialRig(t)
		r.inner.fails = func(reqs []store.Request) error {
			for i := range reqs {
				if strings.HasSuffix(reqs[i].Key.Name, store.NextSuffix) {
					return &store.ForeignError{StoreKey: "k", Holds: "a value that is not limitctl's"}
				}
			}
			return nil
		}
		in, next := []store.Request{oneUnit("u", "x/a", "fixed-window:3/1h")}, oneUnit("u", "x/a~next", "sliding-log:2/1h")
		if allowed, err := r.call(store.Take, in, next); err != nil || !allowed {
			t.Errorf("it gets %t, %v", allowed, err)
		}
		synctest.Wait()
		r.expect("the first one", "take x/a x/a~next?; take x/a; take x/a~next?", "true []")
		r.call(store.Take, in, next)
		synctest.Wait()
		r.expect("a later one", "take x/a; take x/a~next?", "true []")
		// What the store refuses anyway says nothing about the trial: later ones are still in the call.
		r = newTrialRig(t)
		r.inner.fails = func([]store.Request) error { return store.ErrRefused }
		r.call(store.Take, in, next)
		r.inner.fails = nil
		r.call(store.Take, in, next)
		r.expect("after a refusal of all", "take x/a x/a~next?; take x/a; take x/a x/a~next?", "true [true]")
		// An error of the store itself is the caller's, once.
		r = newTrialRig(t)
		for _, want := range []error{store.ErrUnavailable, store.ErrOutcomeUnknown} {
			r.inner.fails = func([]store.Request) error { return want }
			if _, err := r.call(store.Take, in, next); !errors.Is(err, want) {
				t.Errorf("of %v it gets %v", want, err)
			}
			r.expect(want.Error(), "take x/a x/a~next?", "")
		}
	})
}

// What one script cannot decide is decided apart, without making the call wait, and bounded.
func TestOtherTrialsAreDecidedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrialRig(t)
		r.inner.shards, r.inner.wait = true, make(chan struct{})
		in := []store.Request{oneUnit("u", "x/a", "fixed-window:100/1h")}
		next, same := oneUnit("t", "x/b~next", "fixed-window:1/1h"), oneUnit("u", "x/b~next", "fixed-window:1/1h")
		r.call(store.Take, in, same)
		r.expect("the same subject", "take x/a x/b~next?", "true [true]")
		for range 20 { // they wait
			if allowed, err := r.call(store.Take, in, next); !allowed || err != nil {
				t.Fatal(allowed, err)
			}
		}
		synctest.Wait()
		r.mu.Lock()
		if len(r.told) != 4 || r.told[0] != "true []" {
			t.Errorf("beyond the bound, told %q", r.told)
		}
		r.told = nil
		r.mu.Unlock()
		close(r.inner.wait)
		synctest.Wait()
		r.mu.Lock()
		slices.Sort(r.told)
		if len(r.told) != 16 || r.told[0] != "true [false]" || r.told[14] != "true [false]" || r.told[15] != "true [true]" {
			t.Errorf("told %q", r.told)
		}
		r.told = nil
		r.mu.Unlock()
		r.inner.mu.Lock()
		r.inner.calls, r.inner.shards = nil, false
		r.inner.mu.Unlock()
		// A token is remembered for the requests of the caller alone, and judged once.
		in[0].Token, in[0].TokenTTL = "t", time.Minute
		r.call(store.Take, in, same)
		synctest.Wait()
		r.expect("with a token", "take x/a; take x/b~next?", "true [false]")
		r.call(store.Take, in, same)
		synctest.Wait()
		r.expect("the same token again", "take x/a", "")
		r.call(store.Refund, in, same)
		synctest.Wait()
		r.expect("a refund of the token", "refund x/a", "")
		in[0].Token, in[0].TokenTTL = "", 0
		r.call(store.Refund, in, same)
		synctest.Wait()
		r.expect("a refund", "refund x/a; refund x/b~next?", "")
		in[0].Limit.Count, in[0].Limit.Burst = 1, 1
		r.call(store.Charge, in, same)
		synctest.Wait()
		r.expect("a charge", "charge x/a; charge x/b~next?", "")
		in[0].Token, in[0].TokenTTL = "c", time.Minute
		r.call(store.Charge, in, same)
		r.call(store.Charge, in, same)
		synctest.Wait()
		r.mu.Lock()
		slices.Sort(r.inner.calls) // a trial is beside the call
		r.mu.Unlock()
		r.expect("a charge with a token, twice", "charge x/a; charge x/a; charge x/b~next?", "")
	})
}

// An answer that tells nothing about the usage in the store, and one under an override.
func TestWhatIsNotTheLimitsAnswer(t *testing.T) {
	exempt := &store.Override{Effect: store.OverrideExempt}
	half := &store.Override{Effect: store.OverrideTimes, Thousandths: 500}
	for name, test := range map[string]struct {
		d    store.Decision
		told string
	}{
		"a failure policy": {store.Decision{Allowed: true, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}, "true []"},
		"a fallback":       {store.Decision{Allowed: true, DecidedBy: store.DecidedByLocal}, "true []"},
		"room":             {store.Decision{Allowed: true, Used: 4, Granted: 1}, "true [true]"},
		"no room":          {store.Decision{Allowed: true, Used: 11, Granted: 1}, "true [false]"},
		"exempt":           {store.Decision{Allowed: true, Used: 99, Override: exempt}, "true [true]"},
		"blocked":          {store.Decision{Used: 1, Override: &store.Override{Effect: store.OverrideBlock}}, "false [false]"},
		"half, and room":   {store.Decision{Allowed: true, Used: 5, Granted: 1, Override: half}, "true [true]"},
		"half, and none":   {store.Decision{Allowed: true, Used: 6, Granted: 1, Override: half}, "true [false]"},
	} {
		r := newTrialRig(t)
		r.Store = layers.WithTrials(answers{d: test.d})
		r.call(store.Take, []store.Request{oneUnit("u", "x/a", "20/1h")}, oneUnit("u", "x/a", "10/1h"))
		r.expect(name, "", test.told)
	}
	for used, told := range map[int64]string{7: "true [true]", 8: "true [false]"} { // three are left to others
		r := newTrialRig(t)
		r.Store = layers.WithTrials(answers{d: store.Decision{Allowed: true, Used: used, Granted: 1}})
		next := oneUnit("u", "x/a", "10/1h")
		next.Leave = 3
		r.call(store.Take, []store.Request{oneUnit("u", "x/a", "20/1h")}, next)
		r.expect("with a class", "", told)
	}
}

// answers answers each call alike.
type answers struct {
	store.Store
	d store.Decision
}

func (a answers) Decide(_ context.Context, _ store.Op, _ []store.Request, decisions []store.Decision) error {
	for i := range decisions {
		decisions[i] = a.d
	}
	return nil
}

// Operators' overrides of a limit apply to what counts apart for it.
func TestOverridesApplyToWhatCountsApart(t *testing.T) {
	inner := memorystore.New()
	names, err := store.ParsePattern("x/a")
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := store.ParsePattern("u")
	if err != nil {
		t.Fatal(err)
	}
	double := store.Override{Subjects: subjects, Names: names, Effect: store.OverrideTimes, Thousandths: 2000}
	if _, err := inner.SetOverride(t.Context(), double, time.Hour); err != nil {
		t.Fatal(err)
	}
	watch := layers.WatchOverrides(inner, layers.Overrides{})
	if err := watch.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := newTrialRig(t)
	r.Store = layers.Stack(inner, layers.Layers{Overrides: watch.Wrap})
	in, next := []store.Request{oneUnit("u", "x/a", "fixed-window:9/1h")}, oneUnit("u", "x/a~next", "sliding-log:1/1h")
	for _, want := range []string{"true [true]", "true [true]", "true [false]"} {
		r.call(store.Take, in, next)
		r.expect("doubled", "", want)
	}
}
