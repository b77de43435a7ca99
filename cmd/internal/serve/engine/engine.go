// Package engine decides for the server's doors by the settings that are in force, which can be
// replaced while it decides.
package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrUnknownPolicy is that no policy of that name is in force.
var ErrUnknownPolicy = errors.New("unknown policy")

// Settings are what is decided by. They are not changed once they are given to an engine.
type Settings struct {
	Policies []*policy.Policy
	// Breaker has its defaults filled in; nil is that there is none.
	Breaker *layers.Breaker
	// Denials: who is denied is counted, for limitctl denials.
	Denials bool
	HTTP    httplimit.Settings
	Envoy   configfile.EnvoyDomains

	force *force // what decides by them; nil unless an engine returned them
}

// Policy returns the policy of that name, or nil.
func (s *Settings) Policy(name string) *policy.Policy {
	for _, p := range s.Policies {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Ask is what is asked: limits of a policy for attributes, or limits of a key.
type Ask struct {
	// Settings are those that the ask was made by, as [Engine.Settings] returned them; nil for
	// those that are in force. A door that takes attributes from a request by some settings gives
	// them here, so that no others decide.
	Settings   *Settings
	Op         store.Op
	Policy     string
	Attributes policy.Attributes
	Key        string
	Limits     []store.Limit // of Key, or instead of those of Policy, one for each; see [Engine.DecideAll]
	Cost       int64
	CostSaid   bool               // Cost is no default, so that a limit must take it
	Costs      []policy.FieldCost // of the limits whose cost is a field
	Token      string
	TokenTTL   time.Duration
}

// Options are what an engine decides with, whatever settings are in force. A function that is nil
// is not called. The functions must be quick and safe for concurrent use, and must not ask the
// engine.
type Options struct {
	// Timeout is the store's time for an answer.
	Timeout time.Duration
	// OnReplace is told of settings before anything is decided by them, and whether their breaker
	// begins anew, closed; else it is the one before, in whatever state that is.
	OnReplace func(settings *Settings, newBreaker bool)
	// OnDecision is told of each ask, when it is answered. After an error the answer has no
	// decisions, and no policy if that is unknown. Both are only to be read, until it returns.
	OnDecision func(ask *Ask, answer *decision.Answer, err error, took time.Duration)
	// StoreObserver is told of each call of the store itself, inside of all that wraps it.
	StoreObserver layers.Observer
	// OnBreaker is told of each change of the breaker, in order.
	OnBreaker func(change layers.BreakerChange)
	// OnFailure is told each error that a policy replaced by a decision.
	OnFailure func(p *policy.Policy, err error)
	// OnOverrides is told why overrides cannot be read: once, until they can be again.
	OnOverrides func(error)
	// OnOverridesRead is told that they can be.
	OnOverridesRead func()
	// OnDenials is told why denials cannot be written: once, until they can be again.
	OnDenials func(error)
	// OnDenialsWritten is told that they can be.
	OnDenialsWritten func()
}

// Engine decides. It is safe for concurrent use.
type Engine struct {
	options Options
	start   time.Time // since when time is told, which costs half of time.Now
	inForce atomic.Pointer[force]

	// These stay whatever settings are in force, so that replacing settings loses nothing.
	store     store.Store // with its budget
	overrides *layers.OverrideWatch
	denials   *layers.DenialCollector
	// shadow decides in an outage for all policies with on_error: local. A key holds its
	// policy's name, so they do not meet there.
	shadow store.Store

	replacing sync.Mutex // for one after the other, and for what follows
	breaker   *breaker   // nil if there is none

	probed atomic.Uint64 // keys that Probe has asked about
}

// New returns an engine with those settings in force. The store stays the caller's to close.
func New(backend admin.Keyspace, settings *Settings, options Options) *Engine {
	e := &Engine{
		options: options,
		start:   time.Now(),
		store: layers.Stack(backend, layers.Layers{
			Budget:        func(backend store.Store) store.Store { return store.WithBudget(backend, options.Timeout) },
			StoreObserver: func(backend store.Store) store.Store { return layers.WithObserver(backend, options.StoreObserver) },
		}),
		overrides: layers.WatchOverrides(backend,
			layers.Overrides{Idle: always, OnError: options.OnOverrides, OnRecovered: options.OnOverridesRead}),
		denials: layers.CollectDenials(backend, layers.DenialLog{OnError: options.OnDenials, OnRecovered: options.OnDenialsWritten}),
		shadow:  memorystore.New(),
	}
	e.Replace(settings)
	return e
}

// always is for how long overrides are looked at after the last decision. Somebody who is blocked
// while nothing is asked must be turned away from the next ask on.
const always = 100 * 365 * 24 * time.Hour

// LoadOverrides reads the overrides that operators have set, so that they apply to the first ask.
// Without it, and after an error, they apply as soon as they can be read.
func (e *Engine) LoadOverrides(ctx context.Context) error { return e.overrides.Load(ctx) }

// Settings are those that are in force.
func (e *Engine) Settings() *Settings { return e.inForce.Load().settings }

// Decide asks the store, and fills answer in, whose slices it uses again: an answer can serve any
// number of asks, one after the other. Its Key is that of the ask. What is wrong with the ask is a
// [store.ErrInvalid], and [ErrUnknownPolicy] for a policy that its settings do not have.
func (e *Engine) Decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	if e.options.OnDecision == nil {
		return e.decide(ctx, ask, answer)
	}
	begun := time.Since(e.start)
	err := e.decide(ctx, ask, answer)
	e.options.OnDecision(ask, answer, err, time.Since(e.start)-begun)
	return err
}

// deciding is what decides an ask: what its settings say, else what is in force.
func (e *Engine) deciding(ask *Ask) *force {
	if ask.Settings != nil && ask.Settings.force != nil {
		return ask.Settings.force
	}
	return e.inForce.Load()
}

func (e *Engine) decide(ctx context.Context, ask *Ask, answer *decision.Answer) (err error) {
	f := e.deciding(ask)
	*answer = decision.Answer{Key: ask.Key, Requests: answer.Requests[:0], Overrides: answer.Overrides[:0], Decisions: answer.Decisions[:0]}
	backend := f.plain
	if ask.Policy != "" {
		d := f.byName[ask.Policy]
		if d == nil {
			return ErrUnknownPolicy
		}
		backend, answer.Policy = d.store, d.policy.Policy
		if err := d.policy.CheckCost(ask.Op, ask.Cost, ask.CostSaid); err != nil {
			return err
		}
		answer.Requests, answer.Overrides, err = d.policy.AppendRequests(answer.Requests, answer.Overrides, ask.Attributes, ask.Cost,
			ask.Costs...)
		if err != nil {
			return err
		}
	} else {
		for _, limit := range ask.Limits {
			answer.Requests = append(answer.Requests, store.Request{Key: store.Key{Subject: ask.Key}, Limit: limit, Cost: ask.Cost})
		}
	}
	if ask.Token != "" {
		for i := range answer.Requests {
			answer.Requests[i].Token, answer.Requests[i].TokenTTL = ask.Token, ask.TokenTTL
		}
	}
	// They are normalized where they are.
	if answer.Requests, err = store.NormalizeAll(answer.Requests[:0], ask.Op, answer.Requests); err != nil {
		return err
	}
	answer.Decisions = slices.Grow(answer.Decisions, len(answer.Requests))[:len(answer.Requests)]
	clear(answer.Decisions)
	answer.Charges = charges(ask.Op)
	if err = backend.Decide(ctx, ask.Op, answer.Requests, answer.Decisions); err != nil {
		answer.Decisions = answer.Decisions[:0]
	}
	return err
}

// charges reports whether an answer to op tells what was granted.
func charges(op store.Op) bool { return op != store.Peek && op != store.Refund }

// Close writes the denials that are left, and ends what the engine does in the background. It
// leaves the store open. Nothing is to be asked any more.
func (e *Engine) Close() error {
	e.denials.Close()
	e.overrides.Close()
	return nil
}
