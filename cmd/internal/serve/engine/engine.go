// Package engine decides for all listeners of the server by the settings in force, which can be replaced meanwhile.
package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
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

// ErrUnknownPolicy: no policy of that name is in force.
var ErrUnknownPolicy = errors.New("unknown policy")

// Settings are the part of a configuration that decides. Do not change them once an engine has them.
type Settings struct {
	Policies []*policy.Policy
	// Breaker has its defaults filled in; nil means no breaker.
	Breaker *layers.Breaker
	// Denials: denials are counted, for limitctl denials.
	Denials bool
	HTTP    httplimit.Settings
	Envoy   configfile.EnvoyDomains
	// EnvoyOptions are for all domains of Envoy.
	EnvoyOptions configfile.EnvoyOptions

	inForce *inForce // decides by these settings; nil unless an engine returned them
	deniers map[*configfile.EnvoyDescriptor]*policy.Policy
}

// Policy returns the policy of that name, or nil.
func (s *Settings) Policy(name string) *policy.Policy {
	return configfile.NamedPolicy(s.Policies, name)
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
	Limits     []store.Limit // of Key, or instead of those of Policy, one for each; see [Engine.DecideAll]
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
	// StoreObserver observes each call of the store itself, inside all layers.
	StoreObserver layers.Observer
	// OnBreaker gets each change of the breaker, in order.
	OnBreaker func(change layers.BreakerChange)
	// OnFailure gets each error that a failure policy replaced by a decision.
	OnFailure func(p *policy.Policy, err error)
	// OnOverrides gets the error when overrides can no longer be read, once.
	OnOverrides func(error)
	// OnOverridesRead is called when overrides can be read again.
	OnOverridesRead func()
	// OnDenials gets the error when denials can no longer be written, once.
	OnDenials func(error)
	// OnDenialsWritten is called when denials can be written again.
	OnDenialsWritten func()
}

// Engine decides asks. It is safe for concurrent use.
type Engine struct {
	options Options
	start   time.Time // the base of a monotonic clock, which costs half of time.Now
	inForce atomic.Pointer[inForce]

	// These stay when settings are replaced, so that nothing is lost.
	store     store.Store // with its time budget
	overrides *layers.OverrideWatch
	denials   *layers.DenialCollector
	// fallback decides in an outage for all policies with on_error: local. The keys of different policies differ,
	// since they contain the policy's name.
	fallback store.Store

	replacing sync.Mutex // for one replacement at a time, and for the fields below
	breaker   *breaker   // nil for none

	checked atomic.Uint64 // the number of keys that CheckRecovery has peeked at
}

// New returns an engine with those settings in force. The caller closes the store.
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
		denials:  layers.CollectDenials(backend, layers.DenialLog{OnError: options.OnDenials, OnRecovered: options.OnDenialsWritten}),
		fallback: memorystore.New(),
	}
	e.Replace(settings)
	return e
}

// always is the idle time after which overrides are no longer read. A subject that is blocked while nobody calls
// must be denied from the next call on.
const always = 100 * 365 * 24 * time.Hour

// LoadOverrides reads the overrides of operators, so that they apply to the first ask. Without it, and after an
// error, they apply as soon as they can be read.
func (e *Engine) LoadOverrides(ctx context.Context) error { return e.overrides.Load(ctx) }

// Settings returns the settings in force.
func (e *Engine) Settings() *Settings { return e.inForce.Load().settings }

// Decide decides an ask, and fills in answer. It reuses the answer's slices, so one answer can serve many asks in
// turn. Its Key is the key of the ask. A wrong ask is a [store.ErrInvalid], and an unknown policy an
// [ErrUnknownPolicy].
func (e *Engine) Decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	if e.options.OnDecision == nil {
		return e.decide(ctx, ask, answer)
	}
	begun := time.Since(e.start)
	err := e.decide(ctx, ask, answer)
	e.options.OnDecision(ask, answer, err, time.Since(e.start)-begun)
	return err
}

// deciding returns what decides an ask: its own settings, else those in force.
func (e *Engine) deciding(ask *Ask) *inForce {
	if ask.Settings != nil && ask.Settings.inForce != nil {
		return ask.Settings.inForce
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
		p := d.policy
		backend, answer.Policy = d.store, p.Policy
		if err := p.CheckCost(ask.Op, ask.Cost, ask.CostSaid); err != nil {
			return err
		}
		costs := ask.Costs
		if ask.Op == store.Adjust { // the same for all limits
			costs = p.AllCosts(1)
		}
		answer.Requests, answer.Overrides, err = p.AppendRequests(answer.Requests, answer.Overrides, ask.Attributes, ask.Cost,
			costs...)
		if err != nil {
			return err
		}
		for i := range answer.Requests {
			if ask.Op == store.Adjust {
				answer.Requests[i].Cost = ask.Cost
			}
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
	// They are normalized in place.
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

// charges reports whether an answer to op has granted units.
func charges(op store.Op) bool { return op != store.Peek && op != store.Refund && op != store.Adjust }

// Close writes the denials that are not yet written, and ends the work in the background. The store stays open. Do
// not call the engine afterwards.
func (e *Engine) Close() error {
	e.denials.Close()
	e.overrides.Close()
	return nil
}

// shardChecks is the number of keys that CheckRecovery peeks at if the store has shards: enough to reach each shard
// within a few calls.
const shardChecks = 64

// CheckRecovery lets an open breaker check whether the store is back, if it is time. Calls do so, too, but without
// calls a breaker would stay open when the store is back, and refuse the next call. sharded says that the breaker is
// open for some shards of the store only. Nothing is charged.
func (e *Engine) CheckRecovery(ctx context.Context, sharded bool) {
	e.replacing.Lock()
	breaker := e.breaker
	e.replacing.Unlock()
	if breaker == nil {
		return
	}
	n := 1
	if sharded {
		n = shardChecks
	}
	limit := store.Limit{Count: 1, Period: time.Second}
	for range n {
		key := store.Key{Subject: "limitctl-probe-" + strconv.FormatUint(e.checked.Add(1), 10)}
		reqs := []store.Request{{Key: key, Limit: limit, Cost: 1}}
		if breaker.store.Decide(ctx, store.Peek, reqs, make([]store.Decision, 1)); ctx.Err() != nil {
			return
		}
	}
}
