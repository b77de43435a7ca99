package loadgen

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Candidate is a limit, or several decided together, to try on a trace.
type Candidate struct {
	// Fields are the fields of the trace that say who is limited, as indexes into
	// [trace.Trace.Fields].
	Fields []int
	// Requests returns what to decide, together and always in the same order, for a
	// subject with those values. Subjects whose requests have a key in common share
	// its state; otherwise the keys mean nothing. A cost is that of all requests; where it is 0 it is
	// filled in later.
	Requests func(subject []string) ([]store.Request, error)
	// limits, if set, are what every subject is under, on keys that it shares with nobody.
	limits []store.Limit
}

// UnderLimits returns the candidate of limits decided together, by all of the fields
// together.
func UnderLimits(fields []int, limits ...store.Limit) Candidate {
	return Candidate{Fields: fields, limits: limits, Requests: func(subject []string) ([]store.Request, error) {
		requests := make([]store.Request, len(limits))
		for i, limit := range limits {
			requests[i] = store.Request{Key: store.Key{Subject: strings.Join(subject, "\x00")}, Limit: limit}
		}
		return requests, nil
	}}
}

// UnderPolicy returns the candidate of the limits of a policy, with its overrides and
// shadows. Each of the attributes is the value of the field of the same index, and
// missing where that is empty.
func UnderPolicy(fields []int, attributes []string, p *policy.Policy) Candidate {
	return Candidate{Fields: fields, Requests: func(subject []string) ([]store.Request, error) {
		given := policy.Attributes{}
		for i, value := range subject {
			if value != "" {
				given[attributes[i]] = value
			}
		}
		return PolicyRequests(p, given)
	}}
}

// PolicyRequests returns what a policy makes of attributes in a load, of which each request has one cost: that is of the
// limits whose cost is a field, or if there are none, of those without a cost of their own. All others have the same cost
// in each request, 1 if they do not say. More than one field is a [store.ErrInvalid].
func PolicyRequests(p *policy.Policy, attributes policy.Attributes) ([]store.Request, error) {
	fields := p.CostFields()
	if len(fields) > 1 {
		return nil, store.Invalidf("policy %q has the costs %s, and the requests of a load have one; try it with limits that have one of them",
			p.Name, strings.Join(fields, " and "))
	}
	requests, err := p.Requests(attributes, 1, p.AllCosts(1)...)
	for i := range requests {
		cost := p.Limits[i].Cost
		if cost.Field != "" || len(fields) == 0 && cost.Units == 0 {
			requests[i].Cost = 0 // that of the load
		}
	}
	return requests, err
}

// TracePopulation is what the subjects of a trace ask under a candidate.
type TracePopulation struct {
	*Population
	// Values are the values of the candidate's fields, by the Population's subject.
	Values    *trace.Subjects
	subjectOf []uint32 // of the trace's subjects; nil if they are the Population's
}

// SubjectOf returns which of the Population's subjects one of the trace's is.
func (p *TracePopulation) SubjectOf(subject uint32) uint32 {
	if p.subjectOf == nil {
		return subject
	}
	return p.subjectOf[subject]
}

// Population returns what the subjects of a trace ask under the candidate. What is wrong
// with its limits is a [store.ErrInvalid].
func (c *Candidate) Population(t *trace.Trace) (*TracePopulation, error) {
	population := new(TracePopulation)
	population.Values, population.subjectOf = t.Subjects.By(c.Fields)
	b := newPopulationBuilder()
	for subject := range population.Values.Len() {
		requests, err := c.Requests(population.Values.At(uint32(subject)))
		if err != nil {
			return nil, err
		}
		if err := b.add(requests); err != nil {
			return nil, err
		}
	}
	population.Population = &b.Population
	return population, nil
}
