package envoy

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limitSet collects the limits of all descriptors for the client.
type limitSet struct {
	policies  []string // their names
	limits    []policy.Limit
	reqs      []store.Request
	decisions []store.Decision
}

// add adds the limits of a descriptor. Of two equal limits it keeps the one with less remaining.
func (s *limitSet) add(answer *decision.Answer) {
	for i := range answer.Decisions {
		if at := s.find(&answer.Requests[i]); at >= 0 {
			if tighter(&answer.Decisions[i], &s.decisions[at]) {
				s.decisions[at] = answer.Decisions[i]
			}
			continue
		}
		s.policies = append(s.policies, answer.Policy.Name)
		s.limits = append(s.limits, answer.Policy.Limits[i])
		s.reqs = append(s.reqs, answer.Requests[i])
		s.decisions = append(s.decisions, answer.Decisions[i])
	}
}

// find returns the index of an equal request, or -1.
func (s *limitSet) find(request *store.Request) int {
	for i := range s.reqs {
		if r := &s.reqs[i]; r.Key == request.Key && r.Limit == request.Limit && r.Shadow == request.Shadow {
			return i
		}
	}
	return -1
}

// named returns the limits with a unique name for each, by which a client joins its fields: LIMIT, or POLICY/LIMIT if several
// policies have a limit of that name, as in current_limit. A "+" is added for each earlier subject of the same
// limit.
func (s *limitSet) named() []policy.Limit {
	named := slices.Clone(s.limits)
	for i, limit := range s.limits {
		before := 0
		for j, other := range s.limits {
			switch {
			case other.Name != limit.Name:
			case s.policies[j] != s.policies[i]:
				named[i].Name = s.policies[i] + "/" + limit.Name
			case j < i:
				before++
			}
		}
		named[i].Name += strings.Repeat("+", before)
	}
	return named
}
