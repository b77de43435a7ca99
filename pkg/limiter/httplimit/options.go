package httplimit

import (
	"net/http"
	"slices"

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
	// Attributes, if not nil, returns attributes that are not in the request itself, such as the user of a session.
	// They take precedence over those of Rule. One with the name of a field that is a limit's cost is that number,
	// such as "tokens": "3000". A client that can set it chooses its own cost. A missing cost is an error, also for
	// a shadow limit. An error becomes the status 400 if it is a [limiter.ErrInvalid], else 500.
	Attributes func(r *http.Request) (policy.Attributes, error)
	// Cost, if not nil, returns the cost of r; 0 means that r is not limited. The default is 1 for each request. It
	// does not apply to a limit with its own cost; see [Rule.Costs].
	Cost func(r *http.Request) int64
	// WithoutDelay lets the requests of a leaky bucket through at once. The default holds each until its turn, so
	// that the handler sees them at an even rate. At most as many as the bucket's burst are held. See
	// Decision.Delay.
	WithoutDelay bool
	// Denied, if not nil, answers a request over a limit, instead of [Outcome.WriteDenial]. The fields of Headers
	// are already set.
	Denied func(w http.ResponseWriter, r *http.Request, o *Outcome)
	// Failed, if not nil, answers a request for which there is no decision, instead of [WriteFailure].
	Failed func(w http.ResponseWriter, r *http.Request, err error)
	// OnError, if not nil, gets the reason why there is no decision, unless the client caused it.
	OnError func(r *http.Request, err error)
}

// NoHeaders selects no fields, in [Options].
const NoHeaders Headers = 1 << 7

// check returns a [limiter.ErrInvalid] if o does not fit p.
func (o *Options) check(p *policy.Policy) error {
	if problems := p.Problems(); len(problems) > 0 {
		return store.Invalidf("policy %q: %s", p.Name, problems[0].Text)
	}
	known, _ := p.Attributes()
	known = append(known, p.CostFields()...)
	for name, source := range o.Rule.Attributes {
		if !slices.Contains(known, name) {
			return store.Invalidf("policy %q has no attribute %q, for which there is a source", p.Name, name)
		}
		if source.kind == 0 {
			return store.Invalidf("the source of attribute %q is empty; make it with ParseSource", name)
		}
	}
	for _, name := range Sourced(p) {
		if _, has := o.Rule.Attributes[name]; !has && o.Attributes == nil {
			what := "attribute"
			if slices.Contains(p.CostFields(), name) {
				what = "cost"
			}
			return store.Invalidf("policy %q needs the %s %q; say where it is in a request", p.Name, what, name)
		}
	}
	return o.checkAnswers()
}

// checkAnswers checks what does not depend on a policy.
func (o *Options) checkAnswers() error {
	if err := o.Clients.Validate(); err != nil {
		return err
	}
	if status := o.Rule.Status(); status < 400 || status > 599 {
		return store.Invalidf("status %d of a denial; it must be from 400 to 599", status)
	}
	return nil
}
