// Package httplimit limits HTTP requests by policies. It has middleware for net/http, and its parts for other
// servers: the client of a request, its attributes, and the fields of the answer.
//
// [PerKey] limits each key, such as an API key, in one call, and [NewFunc] calls a function of the service for the
// limits of each request. [New] uses a policy, which says how much is allowed and names the attributes that make
// the subject. A [Rule] says where these attributes are in a request:
//
//	login := &policy.Policy{Name: "login", Limits: []policy.Limit{
//		{Limit: limiter.Per("ip", 10, time.Minute), By: []string{"ip"}},
//	}}
//	limit, err := httplimit.New(limits, login, httplimit.Options{
//		Rule: httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}},
//	})
//	...
//	mux.Handle("/login", limit.Wrap(loginPage))
//
// A request within its limits reaches the handler. Its answer has the fields RateLimit, RateLimit-Policy and
// X-RateLimit-* (see [Headers]), and the handler gets the decision from [OutcomeOf]. A request over a limit
// gets the status 429, Retry-After, and a body of the type application/problem+json.
//
// Behind a proxy all requests come from its address, unless [Clients].Trusted names it.
//
// A request without an attribute that a limit needs, or with several different values of it, gets the status 400, since
// leaving out a field must be no way around the limit. If a service has users without a name, give them one in
// [Options].Attributes, such as "guest", and add a limit by their address. While the store is away, requests get the
// status 503, unless an option of the limiter decides. No answer contains the text of an error that is not the
// client's.
package httplimit

import "github.com/limitctl/limitctl/internal/limitfields"

// Settings are what an HTTP server needs besides the policies: the section http of a configuration, and the one of
// each policy.
type Settings struct {
	Clients Clients
	// Headers are the fields of answers. Zero means none; in [Options] it means all.
	Headers Headers
	// Rules are by the names of policies. A policy without one has the zero Rule.
	Rules map[string]Rule
}

// Options returns the options for the policy of that name.
func (s *Settings) Options(policy string) Options {
	headers := s.Headers
	if headers == 0 {
		headers = NoHeaders
	}
	return Options{Rule: s.Rules[policy], Clients: s.Clients, Headers: headers}
}

// Client returns the value of an attribute as requests have it: if the policy takes the attribute from the client, and
// value names a client, it is what [Clients.Client] returns, else value. So a client has one key, however its address
// is written.
func (s *Settings) Client(policy, attribute, value string) string {
	if source := s.Rules[policy].Attributes[attribute]; source.String() == client {
		if named, ok := s.Clients.Client(value); ok {
			return named
		}
	}
	return value
}

// Headers selects the header fields of answers that inform a client about its limits:
//
//	RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
//	RateLimit: "burst";r=99;t=1,"daily";r=999;t=87
//	X-RateLimit-Limit: 100
//	X-RateLimit-Remaining: 99
//	X-RateLimit-Reset: 1700000001
//
// In RateLimit-Policy q is the count of the limit, and w its period in seconds, rounded up; for a period below one
// second, q is what fits into a second. X-RateLimit-Limit is the capacity: more than q by the burst.
//
// In RateLimit r is what remains, and t the seconds until more remains, rounded up; for the sliding algorithms until
// all does. X-RateLimit-Reset is the instant of t, and not before Retry-After, by this machine's clock. Retry-After is
// the time until the same request is allowed, if nobody else takes.
//
// The fields leave out what cannot deny: shadow limits and exemptions. A limit whose usage is unknown is in
// RateLimit-Policy only. One that an override or a local share changes appears as changed.
type Headers uint8

const (
	// RateLimit is RateLimit-Policy and RateLimit, the structured fields of
	// draft-ietf-httpapi-ratelimit-headers. They list all limits.
	RateLimit = Headers(limitfields.RateLimit)
	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset (unix
	// seconds), of the limit that has the least left.
	XRateLimit = Headers(limitfields.XRateLimit)
	// RetryAfter is Retry-After on a denial, in whole seconds; 1 if the store is away and FailClosed denied.
	RetryAfter = Headers(limitfields.RetryAfter)

	// AllHeaders selects all fields.
	AllHeaders = RateLimit | XRateLimit | RetryAfter
	// NoHeaders selects no fields, in [Options].
	NoHeaders Headers = 1 << 7
)
