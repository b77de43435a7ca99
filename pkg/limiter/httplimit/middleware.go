package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/internal/sleep"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Middleware lets requests through to handlers as far as a policy allows. It is safe for
// concurrent use, and can wrap any number of handlers, which then share their limits.
type Middleware struct {
	policy *policy.Prepared
	store  limiter.Store
	names  []string // of the limits
	known  []string // the attributes of the policy
	needed []string // those without which nothing is decided
	// attributes are of type policy.Attributes, and empty. They are needed only to make requests of.
	attributes sync.Pool
	options    Options
}

// New returns a middleware that decides by p with store. Closing the store stays the caller's
// business. The error is a [limiter.ErrInvalid]: p or options have a mistake, or options do not say
// where the attributes of p are.
func New(p *policy.Policy, store limiter.Store, options Options) (*Middleware, error) {
	if err := options.check(p); err != nil {
		return nil, err
	}
	if options.Headers == 0 {
		options.Headers = AllHeaders
	}
	m := &Middleware{policy: p.Prepare(), store: store, needed: p.Needed(), options: options}
	m.known, _ = p.Attributes()
	m.attributes.New = func() any { return policy.Attributes{} }
	for i := range p.Limits {
		m.names = append(m.names, p.Limits[i].Name)
	}
	return m, nil
}

// Wrap returns a handler that passes on to next what is within the limits. As a function it is
// what routers call middleware: func(http.Handler) http.Handler.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	cost := int64(1)
	if m.options.Cost != nil {
		cost = m.options.Cost(r)
	}
	if cost == 0 || m.options.Rule.Skips(r) {
		next.ServeHTTP(w, r)
		return
	}
	o, err := m.decide(r, cost)
	if err != nil {
		m.fail(w, r, err)
		return
	}
	m.options.Headers.Set(w.Header(), o.names, o.Requests, o.Decisions)
	if !limiter.AllAllowed(o.Decisions) {
		if m.options.Denied != nil {
			m.options.Denied(w, r, o)
		} else {
			o.WriteDenial(w)
		}
		return
	}
	if err := m.await(r.Context(), o); err != nil {
		m.fail(w, r, err) // its turn stays taken
		return
	}
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, o)))
}

// outcomeRoom is an outcome with room for the limits that a policy usually has.
type outcomeRoom struct {
	Outcome
	requests  [2]limiter.Request
	decisions [2]limiter.Decision
}

func (m *Middleware) decide(r *http.Request, cost int64) (*Outcome, error) {
	attributes := m.attributes.Get().(policy.Attributes)
	defer func() {
		clear(attributes)
		m.attributes.Put(attributes)
	}()
	if err := m.find(attributes, r); err != nil {
		return nil, err
	}
	var overrides [8]int
	room := &outcomeRoom{Outcome: Outcome{Policy: m.policy.Policy, names: m.names, status: m.options.Rule.Status()}}
	o := &room.Outcome
	var err error
	if o.Requests, _, err = m.policy.AppendRequests(room.requests[:0], overrides[:0], attributes, cost); err != nil {
		return nil, err
	}
	if o.Decisions = room.decisions[:0]; len(o.Requests) > len(room.decisions) {
		o.Decisions = make([]limiter.Decision, 0, len(o.Requests))
	}
	o.Decisions = o.Decisions[:len(o.Requests)]
	return o, m.store.Decide(r.Context(), limiter.Take, o.Requests, o.Decisions)
}

// find adds the attributes of r.
func (m *Middleware) find(attributes policy.Attributes, r *http.Request) error {
	m.options.Rule.add(attributes, r, &m.options.Clients)
	if m.options.Attributes != nil {
		own, err := m.options.Attributes(r)
		if err != nil {
			return err
		}
		for name, value := range own {
			if !slices.Contains(m.known, name) { // a mistake of the service, and none of the client
				return fmt.Errorf("policy %q has no attribute %q", m.policy.Name, name)
			}
			attributes[name] = bounded(value)
		}
	}
	return m.options.Rule.missing(m.needed, attributes)
}

func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, err error) {
	if m.options.OnError != nil && !errors.Is(err, limiter.ErrInvalid) && !errors.Is(err, limiter.ErrGaveUp) {
		m.options.OnError(r, err)
	}
	if m.options.Failed != nil {
		m.options.Failed(w, r, err)
	} else {
		WriteFailure(w, err)
	}
}

// await waits for the turn of a leaky bucket.
func (m *Middleware) await(ctx context.Context, o *Outcome) error {
	delay := o.Summary().Delay
	if delay == 0 || m.options.WithoutDelay {
		return nil
	}
	if err := sleep.For(ctx, delay); err != nil {
		return cmp.Or(limiter.GaveUp(ctx), err)
	}
	return nil
}
