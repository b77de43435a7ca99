// Package engine answers the questions of all listeners of the server by a [policyfile.Runtime].
package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
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

	inForce *policyfile.InForce // decides by these settings; set by an engine
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
	// Settings are the settings for which the ask was made, from [Engine.Settings]. No others decide it.
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
	Hold       bool // until its turn, as its policy says; see Waits
}

// Waits reports whether the ask is one that its policy holds until its turn.
func (ask *Ask) Waits() bool {
	p, _ := ask.Settings.inForce.Of(ask.Policy)
	return p != nil && p.Wait > 0 && ask.Op == store.Take
}

// Options are the parts of an engine that do not depend on the settings. Functions can be nil. They must be quick
// and safe for concurrent use, and must not call the engine.
type Options struct {
	// Timeout is the store's time budget for a call.
	Timeout time.Duration
	// OnReplace gets settings before they decide; newBreaker says that their breaker is new, and closed.
	OnReplace func(settings *Settings, newBreaker bool)
	// OnDecision gets each ask with its answer. After an error the answer has no decisions, and no policy if that
	// is unknown. It must not change or keep either.
	OnDecision func(ask *Ask, answer *decision.Answer, err error, took time.Duration)
	// OnStoreCall gets each call of the store itself, inside all layers.
	OnStoreCall func(ctx context.Context, call layers.Call)
	// Stops, if not nil, is over when the server stops: nobody is held any longer.
	Stops context.Context
	// Observer gets what else happens: failures, changes of the breaker, overrides and denials that are out of date.
	Observer limiter.Observer
}

// Engine decides asks. It is safe for concurrent use.
type Engine struct {
	options Options
	start   time.Time // the base of a monotonic clock, which costs half of time.Now
	runtime *policyfile.Runtime
	denials *layers.DenialCollector // nil for none
	turns   layers.Waiter           // of those who are held

	settings atomic.Pointer[Settings]
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
	if options.Stops == nil {
		options.Stops = context.Background()
	}
	e := &Engine{options: options, start: time.Now(), runtime: runtime}
	e.turns.Store, e.turns.Bounded = heldStore{}, true
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
	own.inForce = e.runtime.InForce()
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

// Decide decides an ask, and fills in answer, whose slices it reuses, so one can serve many asks in turn. A wrong ask
// is a [store.ErrInvalid], and an unknown policy an [ErrUnknownPolicy].
func (e *Engine) Decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	begun := time.Since(e.start)
	if ask.Waits() {
		return e.decideHeld(ctx, ask, answer)
	}
	err := e.decide(ctx, ask, answer)
	if e.options.OnDecision != nil {
		e.options.OnDecision(ask, answer, err, time.Since(e.start)-begun)
	}
	return err
}

func (e *Engine) decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	p, limits := ask.Settings.inForce.Of(ask.Policy)
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
		Decisions: answer.Decisions[:0], Charges: ask.Op != store.Peek && ask.Op != store.Refund &&
			ask.Op != store.Adjust}
	switch {
	case limits == nil:
		return ErrUnknownPolicy
	case p == nil:
		for _, limit := range ask.Limits {
			answer.Requests = append(
				answer.Requests, store.Request{Key: store.Key{Subject: ask.Key}, Limit: limit, Cost: ask.Cost})
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
		answer.Requests, answer.Overrides, err = p.AppendRequests(answer.Requests, answer.Overrides, ask.Attributes,
			ask.Cost, costs...)
		if err != nil {
			return err
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

// Close writes the denials that are left, and ends the work in the background. The store stays open.
func (e *Engine) Close() error { return e.runtime.Close() }

// DenyPolicy stands for descriptors of Envoy that are always denied, so that denials have a policy and a key.
var DenyPolicy = &policy.Policy{Name: "(deny)", Limits: []policy.Limit{
	{Limit: limiter.Limit{Name: "(deny)"}, By: []string{DeniedAttribute}},
}}

// DeniedAttribute is the attribute of DenyPolicy: which descriptor is denied.
const DeniedAttribute = "descriptor"

// Refuse notes that a listener denied an ask without a decision, because no usage would allow it. It is told and
// counted like a decision of p, all of whose limits denied. Nothing is charged.
func (e *Engine) Refuse(ask *Ask, p *policy.Policy) {
	answer := decision.Answer{Policy: p, Key: ask.Key}
	for i := range p.Limits {
		l := &p.Limits[i]
		answer.Overrides = append(answer.Overrides, -1)
		answer.Requests = append(answer.Requests,
			store.Request{Key: p.Key(l, ask.Attributes), Limit: l.Stored(), Shadow: l.Shadow, Cost: ask.Cost})
		answer.Decisions = append(answer.Decisions, store.Decision{Shadow: l.Shadow})
	}
	e.countDenials(ask, answer.Requests, answer.Decisions)
	if e.options.OnDecision != nil {
		e.options.OnDecision(ask, &answer, nil, 0)
	}
}

// countDenials counts a take that no store has denied, once: for the first limit that does.
func (e *Engine) countDenials(ask *Ask, requests []store.Request, decisions []store.Decision) {
	if ask.Op != store.Take || e.denials == nil || ask.Settings.NoDenials {
		return
	}
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed && !d.Shadow && !d.Unguarded {
			e.denials.Count(requests[i], d)
			return
		}
	}
}

// DecideAll decides several asks at one instant, all or nothing, by the settings of the first. All must have a policy,
// and the same operation. The answers have the indexes of the asks, and contain the requests even after an error.
//
// Asks with a key in common charge the sum of their costs to it, and get the same decision, which counts once. A cost
// that can never fit is a denial without a RetryAfter, as it could be of any of them. While the store is away, the
// strictest failure policy of all applies: fail before deny, deny before local, local before allow.
func (e *Engine) DecideAll(ctx context.Context, asks []Ask, answers []decision.Answer) error {
	begun := time.Since(e.start)
	var err error
	if len(asks) == 1 {
		err = e.decide(ctx, &asks[0], &answers[0])
	}
	if len(asks) > 1 || errors.Is(err, store.ErrNeverFits) {
		err = e.decideAll(ctx, asks, answers)
	}
	took := time.Since(e.start) - begun
	for i := range answers {
		if err != nil {
			answers[i].Decisions = answers[i].Decisions[:0]
		}
		if e.options.OnDecision != nil && answers[i].IsOwn() {
			e.options.OnDecision(&asks[i], &answers[i], err, took)
		}
	}
	return err
}

func (e *Engine) decideAll(ctx context.Context, asks []Ask, answers []decision.Answer) error {
	inForce, op := asks[0].Settings.inForce, asks[0].Op
	var strictest *policy.Prepared
	var limits *limiter.Limiter // of the strictest
	requests := make([]store.Request, 0, 2*len(asks))
	places := make([][]int, len(asks)) // the indexes of each ask's requests among all
	for i := range asks {
		p, own := inForce.Of(asks[i].Policy)
		if err := asks[i].requests(p, own, &answers[i]); err != nil {
			return err
		}
		if strictest == nil || stricter(p.Policy, strictest.Policy) {
			strictest, limits = p, own
		}
		first := len(requests)
		for j, request := range answers[i].Requests {
			place := slices.IndexFunc(requests, func(r store.Request) bool {
				return r.Key == request.Key && r.Limit == request.Limit && r.Leave == request.Leave &&
					r.Shadow == request.Shadow
			})
			if place < 0 {
				place, requests = len(requests), append(requests, request)
			} else {
				requests[place].Cost = min(requests[place].Cost+request.Cost, store.MaxCount)
				if place < first {
					answers[i].SetShared(j)
				}
			}
			places[i] = append(places[i], place)
		}
	}
	decisions := make([]store.Decision, len(requests))
	err := limits.Store().Decide(ctx, op, requests, decisions)
	if errors.Is(err, store.ErrNeverFits) {
		neverFits(ctx, limits.Store(), op, requests, decisions)
		e.countDenials(&asks[0], requests, decisions)
	} else if err != nil {
		return err
	}
	for i := range answers {
		answers[i].Decisions = make([]store.Decision, len(places[i]))
		for j, place := range places[i] {
			answers[i].Requests[j], answers[i].Decisions[j] = requests[place], decisions[place]
		}
	}
	return nil
}

// neverFits fills in decisions about requests that can never be allowed together: what is left, and a denial of those
// that alone never fit, or of all if there is none.
func neverFits(ctx context.Context, backend store.Store, op store.Op, requests []store.Request,
	decisions []store.Decision) {
	all := !slices.ContainsFunc(requests, func(r store.Request) bool { return r.NeverFits(op) })
	peeks, never := slices.Clone(requests), make([]bool, len(requests))
	for i := range peeks {
		if r := &peeks[i]; !r.Shadow && (all || r.NeverFits(op)) {
			never[i], r.Shadow, r.Cost = true, true, 1
		}
	}
	err := backend.Decide(ctx, store.Peek, peeks, decisions)
	for i := range decisions {
		d := &decisions[i]
		if err != nil || never[i] && d.Unguarded {
			*d = store.Decision{Allowed: true, Unguarded: !never[i], Shadow: requests[i].Shadow}
		}
		if d.RetryAfter = 0; never[i] {
			d.Allowed, d.Shadow, d.Delay = false, false, 0
		}
	}
}

// stricter reports whether p lets less through than other while the store is away.
func stricter(p, other *policy.Policy) bool {
	order := [...]store.FailurePolicy{store.AllowOnError, store.LocalOnError, store.DenyOnError, store.FailOnError}
	own, others := slices.Index(order[:], p.OnError), slices.Index(order[:], other.OnError)
	return own > others || own == others && p.LocalShare < other.LocalShare
}
