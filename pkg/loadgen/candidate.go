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
	// its state; otherwise the keys mean nothing. The costs are filled in later.
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
		return p.Requests(given, 1)
	}}
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
