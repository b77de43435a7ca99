package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/sleep"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Middleware lets requests through to handlers as far as a policy allows. It is safe for
// concurrent use, and can wrap any number of handlers, which then share their limits.
type Middleware struct {
	policy *policy.Policy
	store  limiter.Store
	names  []string // of the limits
	known  []string // the attributes of the policy
	needed []string // those without which nothing is decided
	Options
}

// New returns a middleware that decides by p with store. Closing the store stays the caller's
// business. The error is a [limiter.ErrInvalid]: p has a mistake, or options do not say where its
// attributes are.
func New(p *policy.Policy, store limiter.Store, options Options) (*Middleware, error) {
	if err := options.check(p); err != nil {
		return nil, err
	}
	if options.Headers == 0 {
		options.Headers = AllHeaders
	}
	m := &Middleware{policy: p, store: store, Options: options}
	for i := range p.Limits {
		m.names = append(m.names, p.Limits[i].Name)
	}
	known, needed := p.Attributes()
	m.known = known
	for _, name := range known {
		if needed[name] {
			m.needed = append(m.needed, name)
		}
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
	if m.Cost != nil {
		cost = m.Cost(r)
	}
	if cost == 0 || m.Rule.Skips(r) {
		next.ServeHTTP(w, r)
		return
	}
	o, err := m.decide(r, cost)
	if err != nil {
		m.fail(w, r, err)
		return
	}
	m.Headers.Set(w.Header(), o.names, o.Requests, o.Decisions)
	if !limiter.AllAllowed(o.Decisions) {
		if m.Denied != nil {
			m.Denied(w, r, o)
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

func (m *Middleware) decide(r *http.Request, cost int64) (*Outcome, error) {
	attributes, err := m.attributes(r)
	if err != nil {
		return nil, err
	}
	reqs, err := m.policy.Requests(attributes, cost)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Policy: m.policy, Requests: reqs, Decisions: make([]limiter.Decision, len(reqs)), names: m.names, status: m.Rule.Status()}
	return o, m.store.Decide(r.Context(), limiter.Take, o.Requests, o.Decisions)
}

func (m *Middleware) attributes(r *http.Request) (policy.Attributes, error) {
	attributes := m.Rule.Of(r, &m.Clients)
	if m.Attributes != nil {
		own, err := m.Attributes(r)
		if err != nil {
			return nil, err
		}
		for name, value := range own {
			if !slices.Contains(m.known, name) { // a mistake of the service, and none of the client
				return nil, fmt.Errorf("policy %q has no attribute %q", m.policy.Name, name)
			}
			attributes[name] = bounded(value)
		}
	}
	for _, name := range m.needed {
		if attributes[name] == "" {
			return nil, m.missing(attributes)
		}
	}
	return attributes, nil
}

// missing says what a request lacks, in the words of a client.
func (m *Middleware) missing(attributes policy.Attributes) error {
	var missing []string
	for _, name := range m.needed {
		if attributes[name] != "" {
			continue
		}
		if source, has := m.Rule.Attributes[name]; has {
			name = source.String()
		}
		missing = append(missing, name)
	}
	return limiter.Invalidf("the request must have exactly one value for %s", strings.Join(missing, " and for "))
}

func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, err error) {
	if m.OnError != nil && !errors.Is(err, limiter.ErrInvalid) && !errors.Is(err, limiter.ErrGaveUp) {
		m.OnError(r, err)
	}
	if m.Failed != nil {
		m.Failed(w, r, err)
	} else {
		WriteFailure(w, err)
	}
}

// await waits for the turn of a leaky bucket.
func (m *Middleware) await(ctx context.Context, o *Outcome) error {
	delay := time.Duration(0)
	for i := range o.Decisions {
		if d := &o.Decisions[i]; !d.Shadow {
			delay = max(delay, d.Delay)
		}
	}
	if delay == 0 || m.WithoutDelay {
		return nil
	}
	if err := sleep.For(ctx, delay); err != nil {
		return cmp.Or(limiter.GaveUp(ctx), err)
	}
	return nil
}
