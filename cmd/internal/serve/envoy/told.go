package envoy

import (
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// told collects the limits of all descriptors for the client.
type told struct {
	policies, limits []string // their names
	reqs             []store.Request
	decisions        []store.Decision
}

// add adds the limits of a descriptor. Of two equal limits it keeps the one with less remaining.
func (t *told) add(answer *decision.Answer) {
	for i := range answer.Decisions {
		if at := t.find(&answer.Requests[i]); at >= 0 {
			if tighter(&answer.Decisions[i], &t.decisions[at]) {
				t.decisions[at] = answer.Decisions[i]
			}
			continue
		}
		t.policies = append(t.policies, answer.Policy.Name)
		t.limits = append(t.limits, answer.LimitName(i))
		t.reqs = append(t.reqs, answer.Requests[i])
		t.decisions = append(t.decisions, answer.Decisions[i])
	}
}

// find returns the index of an equal request, or -1.
func (t *told) find(request *store.Request) int {
	for i := range t.reqs {
		if r := &t.reqs[i]; r.Key == request.Key && r.Limit == request.Limit && r.Shadow == request.Shadow {
			return i
		}
	}
	return -1
}

// names returns a unique name for each limit, by which a client joins its fields: LIMIT, or POLICY/LIMIT if several
// policies have a limit of that name, as in current_limit. A "+" is added for each earlier subject of the same
// limit.
func (t *told) names() []string {
	names := make([]string, len(t.limits))
	for i, limit := range t.limits {
		names[i] = limit
		before := 0
		for j, other := range t.limits {
			switch {
			case other != limit:
			case t.policies[j] != t.policies[i]:
				names[i] = t.policies[i] + "/" + limit
			case j < i:
				before++
			}
		}
		names[i] += strings.Repeat("+", before)
	}
	return names
}
