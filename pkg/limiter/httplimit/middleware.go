package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options say how a [Middleware] limits requests. The functions must be safe for concurrent use.
type Options struct {
	// Rule says where the attributes are and which requests are not limited.
	Rule Rule
	// Clients says which proxies are trusted. The default is none.
	Clients Clients
	// Headers are the fields of answers; 0 means [AllHeaders].
	Headers Headers
	// Attributes, if not nil, returns attributes that are not in the request itself, such as the user of a session, or
	// a cost. An error becomes the status 400 if it is a [limiter.ErrInvalid], else 500.
	Attributes func(r *http.Request) (policy.Attributes, error)
	// CountIf, if not nil, says by the status of the answer whether r counts, such as only failed logins. The units
	// are taken before the handler runs, and given back if it returns false, unless their window is over or the store
	// was away. OnError gets an error of that. A handler that writes nothing has the status 200, one that panics before
	// it writes 500, and one that takes over the connection 101. The fields of the answer are those of the take.
	CountIf func(r *http.Request, status int) bool
	// Denied, if not nil, answers a request over a limit, instead of [Outcome.WriteDenial]. The fields of Headers
	// are already set.
	Denied func(w http.ResponseWriter, r *http.Request, o *Outcome)
	// Failed, if not nil, answers a request for which there is no decision, instead of [WriteFailure].
	Failed func(w http.ResponseWriter, r *http.Request, err error)
	// OnError, if not nil, gets the reason why there is no decision, unless the client caused it.
	OnError func(r *http.Request, err error)
}

// Middleware passes requests to handlers as far as their limits allow, those of a leaky bucket at their turn. It is
// safe for concurrent use. It can wrap several handlers, which then share their limits.
type Middleware struct {
	store   store.Store // of a limiter
	ask     asker
	own     bool // the service itself makes the requests for limits
	options Options
}

// An asker puts the requests for r into o.
type asker func(o *Outcome, r *http.Request) error

// New returns a middleware that decides by the policy p with limits. It ignores OnError of p, since the options of
// limits decide while the store is away, and Wait. It returns a [limiter.ErrInvalid] if p or options have a mistake.
func New(limits *limiter.Limiter, p *policy.Policy, options Options) (*Middleware, error) {
	if p == nil {
		return nil, store.Invalidf("the policy is nil")
	}
	if problems := p.Problems(); len(problems) > 0 {
		return nil, store.Invalidf("policy %q: %s", p.Name, problems[0].Text)
	}
	known, _ := p.Attributes()
	known = append(known, p.CostFields()...)
	for name, source := range options.Rule.Attributes {
		if !slices.Contains(known, name) {
			return nil, store.Invalidf("policy %q has no attribute %q, for which there is a source", p.Name, name)
		}
		if source.place == nil {
			return nil, store.Invalidf("the source of attribute %q is empty; make it with ParseSource", name)
		}
	}
	for _, name := range Sourced(p) {
		if _, has := options.Rule.Attributes[name]; !has && options.Attributes == nil {
			return nil, store.Invalidf("policy %q needs %q; say where it is in a request", p.Name, name)
		}
	}
	prepared, needed := p.Prepare(), p.Needed()
	return newMiddleware(limits, func(o *Outcome, r *http.Request) error {
		attributes := options.Rule.Of(r, &options.Clients)
		if options.Attributes != nil {
			own, err := options.Attributes(r)
			if err != nil {
				return err
			}
			for name, value := range own {
				if !slices.Contains(known, name) { // a mistake of the service, not of the client
					return fmt.Errorf("policy %q has no attribute %q", p.Name, name)
				}
				attributes[name] = bounded(value)
			}
		}
		if err := options.Rule.missing(needed, attributes); err != nil {
			return err
		}
		costs, err := options.Rule.Costs(p, r, attributes)
		if err != nil {
			return err
		}
		o.limits = p.Limits
		var exceptions [8]int // no allocation, as they are not needed
		o.requests, _, err = prepared.AppendRequests(
			make([]store.Request, 0, len(p.Limits)), exceptions[:0], attributes, 1, costs...)
		return err
	}, options)
}

// PerKey limits each key by each limit. key is the source of the key in a request, such as "hash:header:X-API-Key"; see
// [ParseSource]. A request without a key gets the status 400. Anybody can invent keys, so check the key before.
func PerKey(limits *limiter.Limiter, key string, each ...limiter.Limit) (func(http.Handler) http.Handler, error) {
	source, err := ParseSource(key)
	if err != nil {
		return nil, err
	}
	sample := make([]store.Request, len(each))
	for i, limit := range each {
		if limit.Name == "" {
			return nil, store.Invalidf("the limit%s has no name", limit)
		}
		sample[i] = limit.For("key").Stored()
	}
	if _, err := store.NormalizeAll(nil, store.Take, sample); err != nil {
		return nil, err
	}
	m, err := NewFunc(limits, func(r *http.Request) ([]limiter.Request, error) {
		value := source.value(r, &Clients{})
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

// NewFunc returns a middleware that calls ask for the requests of each HTTP request; without any, r is not limited. An
// error of ask becomes the status 400 if it is a [limiter.ErrInvalid], else 500. Options have no attributes.
func NewFunc(limits *limiter.Limiter, ask func(r *http.Request) ([]limiter.Request, error), options Options) (
	*Middleware, error) {
	switch {
	case ask == nil:
		return nil, store.Invalidf("the function that says what to ask is nil")
	case len(options.Rule.Attributes) > 0 || options.Attributes != nil:
		return nil, store.Invalidf("options have attributes, and the function says what to ask; leave them out")
	}
	m, err := newMiddleware(limits, func(o *Outcome, r *http.Request) error {
		asked, err := ask(r)
		for _, request := range asked {
			o.requests = append(o.requests, request.Stored())
		}
		return err
	}, options)
	if m != nil {
		m.own = true
	}
	return m, err
}

func newMiddleware(limits *limiter.Limiter, ask asker, options Options) (*Middleware, error) {
	if err := options.Clients.Validate(); err != nil {
		return nil, err
	}
	if status := options.Rule.Status(); status < 400 || status > 599 {
		return nil, store.Invalidf("status %d of a denial; it must be from 400 to 599", status)
	}
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.options.Rule.Skips(r) {
		next.ServeHTTP(w, r)
		return
	}
	o, err := m.decide(r)
	if err != nil {
		m.fail(w, r, err)
		return
	}
	if len(o.requests) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	if m.options.CountIf != nil && store.AllAllowed(o.decisions) {
		counted := &countedWriter{w, func(status int) { m.count(r, o, status) }}
		defer counted.known(http.StatusInternalServerError) // if it panics
		m.pass(counted, r, o, next)
		counted.known(http.StatusOK) // if it has written nothing
		return
	}
	m.pass(w, r, o, next)
}

// pass answers a request for which there are decisions.
func (m *Middleware) pass(w http.ResponseWriter, r *http.Request, o *Outcome, next http.Handler) {
	limitfields.Set(w.Header(), limitfields.Selection(m.options.Headers&AllHeaders), o.limits, o.requests, o.decisions,
		time.Now())
	sum := store.Summarize(o.decisions)
	switch {
	case !store.AllAllowed(o.decisions) && m.options.Denied != nil:
		m.options.Denied(w, r, o)
		return
	case !store.AllAllowed(o.decisions):
		o.WriteDenial(w)
		return
	case sum.Delay > 0: // the turn of a leaky bucket
		if err := sys.Sleep(r.Context(), sum.Delay); err != nil {
			m.fail(w, r, cmp.Or(store.GaveUp(r.Context()), err)) // without CountIf its turn stays taken
			return
		}
	}
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, o)))
}

func (m *Middleware) decide(r *http.Request) (*Outcome, error) {
	o := &Outcome{status: m.options.Rule.Status()}
	if err := m.ask(o, r); err != nil || len(o.requests) == 0 {
		return o, err
	}
	o.decisions = make([]store.Decision, len(o.requests))
	err := m.store.Decide(r.Context(), store.Take, o.requests, o.decisions)
	if m.own && errors.Is(err, store.ErrInvalid) { // a mistake of the service, not of the client
		err = errors.New("what the service asks is wrong: " + err.Error())
	}
	return o, err
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
