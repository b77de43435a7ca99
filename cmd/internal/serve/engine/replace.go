package engine

import (
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inForce is settings and what decides by them. It is immutable and owns nothing but memory, so calls under way can
// finish after a replacement, and the garbage collector frees it afterwards.
type inForce struct {
	settings *Settings
	byName   map[string]*decider
	plain    store.Store // for limits without a policy
}

// decider decides by one policy.
type decider struct {
	policy *policy.Prepared
	store  store.Store
}

// breaker is a breaker around the store, and its settings.
type breaker struct {
	layers.Breaker
	store store.Store
}

// Replace puts settings in force. Calls that are under way finish with the old ones.
//
// It keeps the known overrides, the denials that are not yet written, the usage of the fallback store, and a breaker
// whose settings stay the same.
func (e *Engine) Replace(settings *Settings) {
	e.replacing.Lock()
	defer e.replacing.Unlock()
	own := *settings
	f := &inForce{settings: &own, byName: make(map[string]*decider, len(own.Policies))}
	own.inForce, own.deniers = f, deniers(own.Envoy)
	backend, isNew := e.withBreaker(own.Breaker)
	f.plain = e.stack(backend, own.Denials, nil)
	for _, p := range own.Policies {
		failure := layers.Failure{Policy: p.OnError, Share: p.LocalShare}
		failure.Fallback = e.fallback
		if e.options.OnFailure != nil {
			failure.OnFailure = func(err error) { e.options.OnFailure(p, err) }
		}
		f.byName[p.Name] = &decider{p.Prepare(), e.stack(backend, own.Denials, &failure)}
	}
	if e.options.OnReplace != nil {
		e.options.OnReplace(&own, isNew)
	}
	e.inForce.Store(f)
}

// stack puts the layers of a policy around a store that has its breaker.
func (e *Engine) stack(backend store.Store, denials bool, failure *layers.Failure) store.Store {
	with := layers.Layers{Overrides: e.overrides.Wrap}
	if denials {
		with.DenialLog = e.denials.Wrap
	}
	if failure != nil {
		with.Failure = func(backend store.Store) store.Store { return layers.WithFailure(backend, *failure) }
	}
	return layers.Stack(backend, with)
}

// withBreaker returns the store behind a breaker with those settings, which is the existing one if its settings are
// the same. The caller holds replacing.
func (e *Engine) withBreaker(settings *layers.Breaker) (backend store.Store, isNew bool) {
	switch {
	case settings == nil:
		isNew = e.breaker != nil
		e.breaker = nil
		return e.store, isNew
	case e.breaker == nil || !alike(&e.breaker.Breaker, settings):
		own := layers.Observer{OnBreaker: e.options.OnBreaker}.Breaker(*settings)
		e.breaker = &breaker{*settings, layers.Stack(e.store, layers.Layers{
			Breaker: func(backend store.Store) store.Store { return layers.WithBreaker(backend, own) }})}
		isNew = true
	}
	return e.breaker.store, isNew
}

// alike reports whether two breakers behave the same.
func alike(a, b *layers.Breaker) bool {
	return a.Failures == b.Failures && [3]time.Duration{a.Slow, a.Pause, a.MaxPause} == [3]time.Duration{b.Slow, b.Pause, b.MaxPause}
}
