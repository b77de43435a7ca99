package policy

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Candidate is a limit that can apply to a request.
type Candidate struct {
	Limit store.Limit
	// Exception is the index of the exception that it comes from, or -1.
	Exception int
	// Unknown are the unknown attributes of the exception, in order. If there are none, the limit applies unless an
	// earlier candidate does.
	Unknown []string
}

// Candidates returns the limits that can apply to a request of which only the attributes in known are known, by
// precedence. The last one applies if no earlier one does.
func (l *Limit) Candidates(known Attributes) []Candidate {
	var candidates []Candidate
	for i, exception := range l.Exceptions {
		var unknown []string
		contradicted := false
		for _, name := range exception.When.Names() {
			value, has := known[name]
			if !has {
				unknown = append(unknown, name)
			}
			contradicted = contradicted || has && value != exception.When[name]
		}
		if contradicted {
			continue
		}
		candidates = append(candidates, Candidate{exception.Limit.Stored(), i, unknown})
		if len(unknown) == 0 {
			return candidates
		}
	}
	return append(candidates, Candidate{l.Stored(), -1, nil})
}
