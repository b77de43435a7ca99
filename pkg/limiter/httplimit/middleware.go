package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Middleware passes requests to handlers as far as their limits allow. It is safe for concurrent use. It can wrap
// several handlers, which then share their limits.
type Middleware struct {
	store   store.Store // of a limiter
	ask     asker
	own     bool // the service itself makes the requests for limits
	options Options
}

// An asker appends the requests for r, and their names, to o, which may have capacity for them.
type asker func(o *Outcome, r *http.Request, cost int64) error

// New returns a middleware that decides by the policy p with limits. It ignores OnError of p, which is for
// policyfile.Runtime: the options of limits decide while the store is away. It returns a [limiter.ErrInvalid] if p
// or options have a mistake, or options have no source for an attribute of p.
func New(limits *limiter.Limiter, p *policy.Policy, options Options) (*Middleware, error) {
	if p == nil {
		return nil, store.Invalidf("the policy is nil")
	}
	if err := options.check(p); err != nil {
		return nil, err
	}
	return newMiddleware(limits, newPolicyAsker(p, &options).ask, options)
}

// PerKey limits each key by each limit. key is the source of the key in a request: "header:X-API-Key", as
// [ParseSource] reads it, or "hash:header:X-API-Key" for a secret. A request without a key gets the status 400.
// Anybody can invent keys, and each has its own limits, so check the key before. The result has the type that
// routers use for middleware.
func PerKey(limits *limiter.Limiter, key string, each ...limiter.Limit) (func(http.Handler) http.Handler, error) {
	source, err := ParseSource(key)
	if err != nil {
		return nil, err
	}
	if len(each) == 0 {
		return nil, store.Invalidf("no limit for each %s; give at least one", key)
	}
	for i := range each {
		if err := checkOwn(each[:i], each[i]); err != nil {
			return nil, err
		}
	}
	clients := &Clients{}
	m, err := NewFunc(limits, func(r *http.Request) ([]limiter.Request, error) {
		value := source.value(r, clients)
		if value == "" {
			return nil, store.Invalidf("the request must have exactly one value for %s", key)
		}
		requests := make([]limiter.Request, len(each))
		for i := range each {
			requests[i] = each[i].For(source.attribute(), bounded(value))
		}
		return requests, nil
	}, Options{})
	if err != nil {
		return nil, err
	}
	return m.Wrap, nil
}

// checkOwn returns what is wrong with a limit beside the others.
func checkOwn(others []limiter.Limit, limit limiter.Limit) error {
	own := limit.For("key").Stored()
	if own.Key.Name == "" {
		return store.Invalidf("the limit %s has no name", own.Limit)
	}
	if slices.ContainsFunc(others, func(other limiter.Limit) bool { return other.Name == limit.Name }) {
		return store.Invalidf("two limits have the name %q", limit.Name)
	}
	return own.Check(store.Take)
}

// NewFunc returns a middleware that calls ask for the requests of each HTTP request, such as for limits that differ
// by customer. Without any, r is not limited. An error of ask becomes the status 400 if it is a
// [limiter.ErrInvalid], else 500. Options must not have attributes and costs.
func NewFunc(limits *limiter.Limiter, ask func(r *http.Request) ([]limiter.Request, error), options Options) (*Middleware, error) {
	switch {
	case ask == nil:
		return nil, store.Invalidf("the function that says what to ask is nil")
	case len(options.Rule.Attributes) > 0 || options.Attributes != nil || options.Cost != nil:
		return nil, store.Invalidf("options have attributes or costs, and the function says what to ask; leave them out")
	}
	if err := options.checkAnswers(); err != nil {
		return nil, err
	}
	m, err := newMiddleware(limits, func(o *Outcome, r *http.Request, _ int64) error {
		asked, err := ask(r)
		for _, request := range asked {
			o.requests = append(o.requests, request.Stored())
			o.names = append(o.names, request.Limit().Name)
		}
		return err
	}, options)
	if m != nil {
		m.own = true
	}
	return m, err
}

func newMiddleware(limits *limiter.Limiter, ask asker, options Options) (*Middleware, error) {
	if limits == nil || limits.Store() == nil {
		return nil, store.Invalidf("the limiter is nil; make it with limiter.New")
	}
	if options.Headers == 0 {
		options.Headers = AllHeaders
	}
	return &Middleware{store: limits.Store(), ask: ask, options: options}, nil
}

// Wrap returns a handler that passes allowed requests to next. As a function it has the type that routers use for
// middleware: func(http.Handler) http.Handler.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	switch {
	case next == nil:
		panic("httplimit: the handler to limit is nil")
	case m == nil || m.store == nil:
		panic("httplimit: the middleware is not made by New, NewFunc or PerKey")
	}
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
	if len(o.requests) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	m.options.Headers.Set(w.Header(), o.names, o.requests, o.decisions)
	m.options.Headers.SetWarning(w.Header(), o.names, o.limits, o.requests, o.decisions)
	if !store.AllAllowed(o.decisions) {
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

// outcomeRoom is an outcome with capacity for the limits of a usual policy.
type outcomeRoom struct {
	Outcome
	requests  [2]store.Request
	decisions [2]store.Decision
}

func (m *Middleware) decide(r *http.Request, cost int64) (*Outcome, error) {
	room := &outcomeRoom{Outcome: Outcome{status: m.options.Rule.Status()}}
	o := &room.Outcome
	o.requests = room.requests[:0]
	if err := m.ask(o, r, cost); err != nil || len(o.requests) == 0 {
		return o, err
	}
	if o.decisions = room.decisions[:0]; len(o.requests) > len(room.decisions) {
		o.decisions = make([]store.Decision, 0, len(o.requests))
	}
	o.decisions = o.decisions[:len(o.requests)]
	err := m.store.Decide(r.Context(), store.Take, o.requests, o.decisions)
	if m.own && errors.Is(err, store.ErrInvalid) { // a mistake of the service, not of the client
		err = errors.New("what the service asks is wrong: " + err.Error())
	}
	return o, err
}

// policyAsker makes requests by a policy.
type policyAsker struct {
	policy  *policy.Prepared
	options *Options
	names   []string // of the limits
	known   []string // the attributes of the policy, and its costs
	needed  []string // those that are required
	// attributes are empty policy.Attributes, for reuse while requests are made.
	attributes sync.Pool
}

func newPolicyAsker(p *policy.Policy, options *Options) *policyAsker {
	a := &policyAsker{policy: p.Prepare(), options: options, needed: p.Needed()}
	a.known, _ = p.Attributes()
	a.known = append(a.known, p.CostFields()...)
	a.attributes.New = func() any { return policy.Attributes{} }
	for i := range p.Limits {
		a.names = append(a.names, p.Limits[i].Name)
	}
	return a
}

func (a *policyAsker) ask(o *Outcome, r *http.Request, cost int64) error {
	attributes := a.attributes.Get().(policy.Attributes)
	defer func() {
		clear(attributes)
		a.attributes.Put(attributes)
	}()
	if err := a.find(attributes, r); err != nil {
		return err
	}
	var overrides [8]int
	costs, err := a.options.Rule.Costs(a.policy.Policy, r, attributes, nil)
	if err != nil {
		return err
	}
	o.names, o.limits = a.names, a.policy.Limits
	o.requests, _, err = a.policy.AppendRequests(o.requests, overrides[:0], attributes, cost, costs...)
	return err
}

// find adds the attributes of r.
func (a *policyAsker) find(attributes policy.Attributes, r *http.Request) error {
	a.options.Rule.add(attributes, r, &a.options.Clients)
	if a.options.Attributes != nil {
		own, err := a.options.Attributes(r)
		if err != nil {
			return err
		}
		for name, value := range own {
			if !slices.Contains(a.known, name) { // a mistake of the service, not of the client
				return fmt.Errorf("policy %q has no attribute %q", a.policy.Name, name)
			}
			attributes[name] = bounded(value)
		}
	}
	return a.options.Rule.missing(a.needed, attributes)
}

func (m *Middleware) fail(w http.ResponseWriter, r *http.Request, err error) {
	if m.options.OnError != nil && !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrGaveUp) {
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
	delay := store.Summarize(o.decisions).Delay
	if delay == 0 || m.options.WithoutDelay {
		return nil
	}
	if err := sys.Sleep(ctx, delay); err != nil {
		return cmp.Or(store.GaveUp(ctx), err)
	}
	return nil
}
