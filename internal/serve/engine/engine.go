// Package engine answers the questions of all listeners of the server by a [policyfile.Runtime].
package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrUnknownPolicy: no policy of that name is in force.
var ErrUnknownPolicy = errors.New("unknown policy")

// Settings are a configuration that decides. Do not change them once an engine has them.
type Settings struct {
	configfile.File

	inForce *policyfile.InForce // decides by these settings; nil unless an engine returned them
	deniers map[*configfile.EnvoyDescriptor]*policy.Policy
}

// Policy returns the policy of that name. An error is a [store.ErrInvalid] that lists the policies.
func (s *Settings) Policy(name string) (*policy.Policy, error) {
	return configfile.FindPolicy("the server's configuration", s.Policies, name)
}

// file returns the settings for a [policyfile.Runtime].
func (s *Settings) file() *policyfile.File {
	return &policyfile.File{Name: "the configuration", Prefix: s.Prefix, Policies: s.Policies, HTTP: s.HTTP,
		Denials: !s.NoDenials, Breaker: (*limiter.Breaker)(s.Breaker)}
}

// Ask is a question to the engine: about the limits of a policy for attributes, or about limits of a key.
type Ask struct {
	// Settings are the settings for which the ask was made, from [Engine.Settings]; nil means those in force. A
	// listener that uses settings to get attributes from a request sets them here, so that no others decide.
	Settings   *Settings
	Op         store.Op
	Policy     string
	Attributes policy.Attributes
	Key        string
	Limits     []store.Limit // of Key, or instead of those of Policy, one for each
	Cost       int64
	CostSaid   bool               // Cost was given, so that a limit must use it
	Costs      []policy.FieldCost // of the limits whose cost is a field
	Token      string
	TokenTTL   time.Duration
}

// Options are the parts of an engine that do not depend on the settings. Functions can be nil. They must be quick
// and safe for concurrent use, and must not call the engine.
type Options struct {
	// Timeout is the store's time budget for a call.
	Timeout time.Duration
	// OnReplace gets settings before they decide anything. newBreaker says that their breaker is new and closed;
	// otherwise it is the one before, in its state.
	OnReplace func(settings *Settings, newBreaker bool)
	// OnDecision gets each ask with its answer. After an error the answer has no decisions, and no policy if that
	// is unknown. It must not change or keep either.
	OnDecision func(ask *Ask, answer *decision.Answer, err error, took time.Duration)
	// OnStoreCall gets each call of the store itself, inside all layers.
	OnStoreCall func(ctx context.Context, call layers.Call)
	// Observer gets what else happens: failures, changes of the breaker, overrides and denials that are out of date.
	Observer limiter.Observer
}

// Engine decides asks. It is safe for concurrent use.
type Engine struct {
	options Options
	start   time.Time // the base of a monotonic clock, which costs half of time.Now
	runtime *policyfile.Runtime
	denials *layers.DenialCollector // nil for none

	settings atomic.Pointer[Settings]
	checked  uint64 // the number of keys that CheckRecovery has peeked at
}

// New returns an engine with those settings in force. The caller closes the store.
func New(backend admin.Keyspace, settings *Settings, options Options) *Engine {
	first := settings.file()
	if s, has := store.As[interface{ Prefix() string }](backend); has {
		first.Prefix = s.Prefix()
	}
	runtime, err := policyfile.NewRuntime(first, layers.Stack(backend, layers.Layers{
		Budget: options.Timeout, Env: layers.Env{Observer: &layers.Observer{OnStoreCall: options.OnStoreCall}},
	}), options.Observer)
	if err != nil {
		panic(err) // the reader of configurations has checked the settings
	}
	e := &Engine{options: options, start: time.Now(), runtime: runtime}
	_, free := runtime.InForce().Of("")
	if shared, has := store.As[*layers.Shared](free.Store()); has {
		e.denials = shared.Denials
	}
	e.Replace(settings)
	return e
}

// Replace puts settings in force, for one goroutine. Calls that are under way finish with the old ones.
func (e *Engine) Replace(settings *Settings) {
	own := *settings
	if err := e.runtime.Use(own.file()); err != nil {
		panic(err) // as in New
	}
	own.inForce, own.deniers = e.runtime.InForce(), deniers(own.Envoy)
	var before *limiter.Breaker
	if s := e.Settings(); s != nil {
		before = s.inForce.File.Breaker
	}
	if e.options.OnReplace != nil {
		e.options.OnReplace(&own, !reflect.DeepEqual(before, own.inForce.File.Breaker))
	}
	e.settings.Store(&own)
}

// Settings returns the settings in force.
func (e *Engine) Settings() *Settings { return e.settings.Load() }

// deciding returns the settings of an ask.
func (e *Engine) deciding(ask *Ask) *Settings {
	if ask.Settings != nil && ask.Settings.inForce != nil {
		return ask.Settings
	}
	return e.Settings()
}

// Decide decides an ask, and fills in answer. It reuses the answer's slices, so one answer can serve many asks in
// turn. Its Key is the key of the ask. A wrong ask is a [store.ErrInvalid], and an unknown policy an
// [ErrUnknownPolicy].
func (e *Engine) Decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	begun := time.Since(e.start)
	err := e.decide(ctx, ask, answer)
	if e.options.OnDecision != nil {
		e.options.OnDecision(ask, answer, err, time.Since(e.start)-begun)
	}
	return err
}

func (e *Engine) decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	p, limits := e.deciding(ask).inForce.Of(ask.Policy)
	err := ask.requests(p, limits, answer)
	if err != nil {
		return err
	}
	answer.Decisions = slices.Grow(answer.Decisions, len(answer.Requests))[:len(answer.Requests)]
	clear(answer.Decisions)
	if err = limits.Store().Decide(ctx, ask.Op, answer.Requests, answer.Decisions); err != nil {
		answer.Decisions = answer.Decisions[:0]
	}
	return err
}

// requests fills in what an ask asks, by its policy, nil for none.
func (ask *Ask) requests(p *policy.Prepared, limits *limiter.Limiter, answer *decision.Answer) (err error) {
	*answer = decision.Answer{Key: ask.Key, Requests: answer.Requests[:0], Overrides: answer.Overrides[:0],
		Decisions: answer.Decisions[:0], Charges: ask.Op != store.Peek && ask.Op != store.Refund && ask.Op != store.Adjust}
	switch {
	case limits == nil:
		return ErrUnknownPolicy
	case p == nil:
		for _, limit := range ask.Limits {
			answer.Requests = append(answer.Requests, store.Request{Key: store.Key{Subject: ask.Key}, Limit: limit, Cost: ask.Cost})
		}
	default:
		answer.Policy = p.Policy
		if err := p.CheckCost(ask.Op, ask.Cost, ask.CostSaid); err != nil {
			return err
		}
		costs := ask.Costs
		if ask.Op == store.Adjust { // the same for all limits
			costs = p.AllCosts(1)
		}
		answer.Requests, answer.Overrides, err = p.AppendRequests(answer.Requests, answer.Overrides, ask.Attributes, ask.Cost, costs...)
		if err != nil {
			return err
		}
		if n := len(ask.Limits); n > 0 && n != len(answer.Requests) {
			return store.Invalidf("policy %q has %d limits, and %d are given instead", ask.Policy, len(answer.Requests), n)
		}
		for i, limit := range ask.Limits {
			answer.Requests[i].Limit, answer.Requests[i].Leave = limit, p.Limits[i].Leave(limit, ask.Attributes)
		}
	}
	for i := range answer.Requests {
		r := &answer.Requests[i]
		if r.Token, r.TokenTTL = ask.Token, ask.TokenTTL; ask.Op == store.Adjust {
			r.Cost = ask.Cost
		}
		r.SetDefaults() // the store checks it, under the override that applies
	}
	return nil
}

// Close writes the denials that are not yet written, and ends the work in the background. The store stays open. Do
// not call the engine afterwards.
func (e *Engine) Close() error { return e.runtime.Close() }

// recoveryChecks is the number of keys that CheckRecovery peeks at: enough to reach each shard of a store within a few calls. While
// a breaker is open, most of them do not reach the store.
const recoveryChecks = 64

// CheckRecovery lets open breakers check whether the store is back, if it is time, for one goroutine. Without calls a breaker would
// stay open when the store is back, and refuse the next call. Nothing is charged.
func (e *Engine) CheckRecovery(ctx context.Context) {
	_, free := e.runtime.InForce().Of("")
	for range recoveryChecks {
		e.checked++
		key := store.Key{Subject: "limitctl-probe-" + strconv.FormatUint(e.checked, 10)}
		reqs := []store.Request{{Key: key, Limit: store.Limit{Count: 1, Period: time.Second}, Cost: 1}}
		if free.Store().Decide(ctx, store.Peek, reqs, make([]store.Decision, 1)); ctx.Err() != nil {
			return
		}
	}
}
