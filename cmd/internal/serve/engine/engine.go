// Package engine decides for the server's doors by the configuration that is in force, which
// can be replaced while it decides.
package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// ErrUnknownPolicy is that no policy of that name is in force.
var ErrUnknownPolicy = errors.New("unknown policy")

// Settings are what is in force. They are not changed once they are.
type Settings struct {
	Policies []*policy.Policy
	// Breaker has its defaults filled in; nil is that there is none.
	Breaker *limiter.Breaker
	HTTP    httplimit.Settings
	Envoy   configfile.EnvoyDomains
}

// Ask is what is asked: limits of a policy for attributes, or limits of a key.
type Ask struct {
	Op         limiter.Op
	Policy     string
	Attributes policy.Attributes
	Key        string
	Limits     []limiter.Limit // if there is no Policy
	Cost       int64
	Token      string
	TokenTTL   time.Duration
}

// Options are what an engine decides with.
type Options struct {
	// Timeout is the store's time for an answer.
	Timeout time.Duration
	// Observer is told of each failure that a policy decided, and of the breaker.
	Observer limiter.Observer
	// StoreObserver is told of each call of the store itself, inside of all that wraps it: how
	// long the store took, and its own errors.
	StoreObserver limiter.Observer
	// OnDecision, if set, is told of each call of [Engine.Decide] and how long it took. After
	// an error answer has no decisions, and no requests if there were none to make. It may
	// read both until it returns. It is called by many at once, so it must be quick.
	OnDecision func(ask *Ask, answer *decision.Answer, err error, took time.Duration)
	// OnReplace, if set, is told of settings before anything is decided by them.
	OnReplace func(settings *Settings)
	// OnFailure is told each error that a policy replaced by a decision.
	OnFailure func(policy string, err error)
	// OnOverrides is told why overrides cannot be read.
	OnOverrides func(error)
}

// Engine decides. It is safe for concurrent use.
type Engine struct {
	store   limiter.Keyspace
	options Options
	inForce atomic.Pointer[force]
}

// force is a configuration and what decides by it.
type force struct {
	*Settings
	byName map[string]*decider
	plain  limiter.Store // for limits without a policy
}

type decider struct {
	policy *policy.Policy
	store  limiter.Store
}

// New returns an engine with those settings in force.
func New(store limiter.Keyspace, settings *Settings, options Options) *Engine {
	e := &Engine{store: store, options: options}
	e.Replace(settings)
	return e
}

// Settings are those that are in force.
func (e *Engine) Settings() *Settings { return e.inForce.Load().Settings }

// Replace puts settings in force. Calls that are being decided are decided by those before.
func (e *Engine) Replace(settings *Settings) {
	f := &force{Settings: settings, byName: map[string]*decider{}}
	if e.options.OnReplace != nil {
		e.options.OnReplace(settings)
	}
	store := limiter.WithObserver(limiter.WithBudget(e.store, e.options.Timeout), e.options.StoreObserver)
	watch := limiter.WatchOverrides(store, limiter.Overrides{OnError: e.options.OnOverrides})
	if settings.Breaker != nil {
		store = limiter.WithBreaker(store, e.options.Observer.Breaker(*settings.Breaker))
	}
	f.plain = watch.Wrap(store)
	for _, p := range settings.Policies {
		failure := p.Failure()
		failure.OnFailure = func(err error) {
			if e.options.OnFailure != nil {
				e.options.OnFailure(p.Name, err)
			}
		}
		f.byName[p.Name] = &decider{p, watch.Wrap(limiter.WithFailure(store, failure))}
	}
	e.inForce.Store(f)
}

// Decide asks the store, and fills answer in. What is wrong with ask is a
// [limiter.ErrInvalid], and [ErrUnknownPolicy] for a policy that is not in force.
func (e *Engine) Decide(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	if e.options.OnDecision == nil {
		return e.decide(ctx, ask, answer)
	}
	begun := time.Now()
	err := e.decide(ctx, ask, answer)
	e.options.OnDecision(ask, answer, err, time.Since(begun))
	return err
}

func (e *Engine) decide(ctx context.Context, ask *Ask, answer *decision.Answer) (err error) {
	f := e.inForce.Load()
	store := f.plain
	if ask.Policy != "" {
		d, known := f.byName[ask.Policy]
		if !known {
			return ErrUnknownPolicy
		}
		store, answer.Policy, answer.LocalShare = d.store, d.policy, d.policy.LocalShare
		if answer.Requests, answer.Overrides, err = d.policy.RequestsWithOverrides(ask.Attributes, ask.Cost); err != nil {
			return err
		}
	} else {
		answer.Key = ask.Key
		for _, limit := range ask.Limits {
			answer.Requests = append(answer.Requests, limiter.Request{Key: limiter.Key{Subject: ask.Key}, Limit: limit, Cost: ask.Cost})
		}
	}
	for i := range answer.Requests {
		answer.Requests[i].Token, answer.Requests[i].TokenTTL = ask.Token, ask.TokenTTL
	}
	if answer.Requests, err = limiter.NormalizeAll(nil, ask.Op, answer.Requests); err != nil {
		return err
	}
	answer.Decisions = make([]limiter.Decision, len(answer.Requests))
	answer.Charges = ask.Op == limiter.Take || ask.Op == limiter.TakeUpTo || ask.Op == limiter.Charge
	return store.Decide(ctx, ask.Op, answer.Requests, answer.Decisions)
}

// Close closes what decides, but not the store.
func (e *Engine) Close() error { return nil }
