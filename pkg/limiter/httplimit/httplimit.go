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
// X-RateLimit-* (see [Headers.Set]), and the handler gets the decision from [OutcomeOf]. A request over a limit
// gets the status 429, Retry-After, and a body of the type application/problem+json.
//
// Policy and rule can also come from the file that the command limitctl validates; see the
// example of a file.
//
// # Behind proxies
//
// Behind a proxy all requests come from the proxy's address. Name the proxies in [Clients].Trusted: then the client
// is the address that they report. Reports of others are ignored.
//
// # Requests that lack something
//
// A request without an attribute that a limit needs, or with several different values of it, gets the status 400.
// If it were let through, leaving out a field would be a way around the limit. If a service has users without a
// name, give them one in [Options].Attributes, such as "guest", and add a limit by their address.
//
// # A store that is away
//
// The middleware decides with a limiter. Without limiter.FailOpen, FailClosed or FailLocal, requests get the status
// 503 while the store is away. Errors that are not the client's go to [Options].OnError; no answer contains their
// text.
package httplimit

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

// Client returns the value of an attribute as requests have it: if the policy takes the attribute from the client, and value
// names a client, it is what [Clients.Client] returns, else value. Whoever has the attribute from elsewhere uses it, so that a
// client has one key, however its address is written.
func (s *Settings) Client(policy, attribute, value string) string {
	if source := s.Rules[policy].Attributes[attribute]; source.kind == fromClient && !source.hashed {
		if client, ok := s.Clients.Client(value); ok {
			return client
		}
	}
	return value
}
