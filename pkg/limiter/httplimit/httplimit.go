// Package httplimit limits HTTP requests by policies. It is middleware for net/http, and the
// parts of it for servers of another kind: who the client of a request is, which attributes
// it has, and what the answer tells of its limits.
//
// A policy says how much is allowed, and to whom by the names of attributes. A [Rule] says where
// these attributes are in a request. [New] makes a middleware of both and a store:
//
//	login := &policy.Policy{Name: "login", Limits: []policy.Limit{
//		{Name: "ip", By: []string{"ip"}, Limit: limiter.Limit{Count: 10, Period: time.Minute}},
//	}}
//	limit, err := httplimit.New(login, memorystore.New(), httplimit.Options{
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
// The middleware decides with the store that it is given. Without a failure policy around
// it, requests are answered with 503 while the store is away. With one they are let in, turned away, or
// decided by a share of each limit: use [limiter.WithFailure], or Wrap of a policyfile.File, which
// does what the policy's on_error says. Errors that are not the client's go to
// [Options].OnError; no answer holds their text.
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
