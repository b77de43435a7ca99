package httplimit

import (
	"net/http"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options say how a [Middleware] limits requests. The functions must be safe for concurrent use.
type Options struct {
	// Rule says where attributes are, and which requests are not limited.
	Rule Rule
	// Clients says which proxies are believed; none unless said.
	Clients Clients
	// Headers are the fields of answers; zero stands for [AllHeaders].
	Headers Headers
	// Attributes, if not nil, returns attributes that are not in the request as such, for instance the user
	// of a session. They are added to those of Rule, and come before them. One with the name of a field that is
	// the cost of a limit is that number, such as "tokens": "3000". A client that
	// can set it chooses its own cost. A cost that is missing is an error, also where the limit is a shadow. An error
	// is answered with 400 if it is a [limiter.ErrInvalid], and else with 500.
	Attributes func(r *http.Request) (policy.Attributes, error)
	// Cost, if not nil, returns how many units r costs; 0 is that it is not limited. nil is
	// that each request costs 1. A limit with a cost of its own takes that; see [Rule.Costs].
	Cost func(r *http.Request) int64
	// WithoutDelay lets the requests of a leaky bucket through at once. Else each is held until its
	// turn comes, so that the handler sees them at an even rate; at most as many as the bucket's burst are held.
	// See Decision.Delay.
	WithoutDelay bool
	// Denied, if not nil, answers a request that is over a limit, in place of
	// [Outcome.WriteDenial]. The fields of Headers are set already.
	Denied func(w http.ResponseWriter, r *http.Request, o *Outcome)
	// Failed, if not nil, answers a request about which nothing was decided, in place of [WriteFailure].
	Failed func(w http.ResponseWriter, r *http.Request, err error)
	// OnError, if not nil, is told why nothing was decided, unless it is the client's doing.
	OnError func(r *http.Request, err error)
}

// NoHeaders is none of the fields, in [Options].
const NoHeaders Headers = 1 << 7

// check reports, as a [limiter.ErrInvalid], why p cannot be decided with o.
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

// checkAnswers is check for what is not about a policy.
func (o *Options) checkAnswers() error {
	if err := o.Clients.Validate(); err != nil {
		return err
	}
	if status := o.Rule.Status(); status < 400 || status > 599 {
		return store.Invalidf("status %d of a denial; it must be from 400 to 599", status)
	}
	return nil
}
