// Package httplimit limits HTTP requests by policies: which attributes of a request say who
// is limited, who its client is, and what the answer's headers tell.
package httplimit

import (
	"net/http"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Settings are what an HTTP server needs to know besides the policies: the section http of a
// configuration, and that of each policy.
type Settings struct {
	Clients Clients
	Headers Headers
	// Rules are by the policies' names. A policy without one has the zero Rule.
	Rules map[string]Rule
}

// Rule says how one policy limits HTTP requests.
type Rule struct {
	// Attributes says where in a request the policy's attributes are.
	Attributes map[string]Source
	// Skip are requests that are not limited.
	Skip Skip
	// DeniedStatus is the status of a denial; zero stands for 429.
	DeniedStatus int
}

// Skip are requests that are neither counted nor denied.
type Skip struct {
	Methods []string
	// Paths are exact, or end with "*" for all that begin so.
	Paths []string
}

// Of returns the attributes of r. Those that r does not have are left out.
func (rule *Rule) Of(r *http.Request, clients *Clients) policy.Attributes {
	attributes := make(policy.Attributes, len(rule.Attributes))
	for name, source := range rule.Attributes {
		if value := source.value(r, clients); value != "" {
			attributes[name] = value
		}
	}
	return attributes
}
