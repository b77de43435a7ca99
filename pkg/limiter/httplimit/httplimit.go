// Package httplimit limits HTTP requests by policies: which attributes of a request say who
// is limited, who its client is, and what the answer's headers tell.
package httplimit

// Settings are what an HTTP server needs to know besides the policies: the section http of a
// configuration, and that of each policy.
type Settings struct {
	Clients Clients
	Headers Headers
	// Rules are by the policies' names. A policy without one has the zero Rule.
	Rules map[string]Rule
}
