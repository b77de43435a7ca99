// Package httplimit limits HTTP requests by policies. It is middleware for net/http, and the
// parts of it for servers of another kind: who the client of a request is, which attributes
// it has, and what the answer tells of its limits.
//
// [PerKey] limits each key, such as an API key, in one call, and [NewFunc] asks a function of the service for the limits of
// each request. [New] goes by a policy, which says how much is allowed, and to whom by the names of attributes. A
// [Rule] says where these attributes are in a request:
//
//	login := &policy.Policy{Name: "login", Limits: []policy.Limit{
//		{Name: "ip", By: []string{"ip"}, Limit: store.Limit{Count: 10, Period: time.Minute}},
//	}}
//	limit, err := httplimit.New(limits, login, httplimit.Options{
//		Rule: httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("client")}},
//	})
//	...
//	mux.Handle("/login", limit.Wrap(loginPage))
//
// A request within its limits reaches the handler. Its answer has the fields RateLimit,
// RateLimit-Policy and X-RateLimit-* (see [Headers.Set]), and the handler can look at the decision with
// [OutcomeOf]. A request over a limit is answered with 429, Retry-After, and a body of the
// type application/problem+json.
//
// Policy and rule can also come from the file that the command limitctl validates; see the
// example of a file.
//
// # Behind proxies
//
// Behind a proxy all requests come from the proxy's address. Name the proxies in
// [Clients].Trusted, and the address that they tell is the client's. Nobody else is believed.
//
// # Requests that lack something
//
// A request without an attribute that a limit needs is answered with 400, also if it has several
// values for it that differ. It cannot be let through, or leaving out a field would be a way around
// the limit. If a service has users without a name, say so in [Options].Attributes: give them one,
// such as "guest", and limit the rest of what they are by their address.
//
// # A store that is away
//
// The middleware decides with a limiter. Without limiter.FailOpen, FailClosed or FailLocal, requests are answered with
// 503 while the store is away. Errors that are not the client's go to [Options].OnError; no answer
// holds their text.
package httplimit

// Settings are what an HTTP server needs to know besides the policies: the section http of a
// configuration, and that of each policy.
type Settings struct {
	Clients Clients
	// Headers are the fields of answers. Zero is none, unlike in [Options], where it is all.
	Headers Headers
	// Rules are by the policies' names. A policy without one has the zero Rule.
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
