package loadgen

import (
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
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
	Requests func(subject []string) ([]limiter.Request, error)
	// limits, if set, are what every subject is under, on keys that it shares with nobody.
	limits []limiter.Limit
}

// UnderLimits returns the candidate of limits decided together, by all of the fields
// together.
func UnderLimits(fields []int, limits ...limiter.Limit) Candidate {
	return Candidate{Fields: fields, limits: limits, Requests: func(subject []string) ([]limiter.Request, error) {
		requests := make([]limiter.Request, len(limits))
		for i, limit := range limits {
			requests[i] = limiter.Request{Key: limiter.Key{Subject: strings.Join(subject, "\x00")}, Limit: limit}
		}
		return requests, nil
	}}
}

// UnderPolicy returns the candidate of the limits of a policy, with its overrides and
// shadows. Each of the attributes is the value of the field of the same index, and
// missing where that is empty.
func UnderPolicy(fields []int, attributes []string, p *policy.Policy) Candidate {
	return Candidate{Fields: fields, Requests: func(subject []string) ([]limiter.Request, error) {
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
	Values [][]string
	// SubjectOf says which of the Population's subjects one of the trace's is.
	SubjectOf []uint32
}

// Population returns what the subjects of a trace ask under the candidate. What is wrong
// with its limits is a [limiter.ErrInvalid].
func (c *Candidate) Population(t *trace.Trace) (*TracePopulation, error) {
	population := new(TracePopulation)
	population.Values, population.SubjectOf = c.subjects(t)
	b := newPopulationBuilder()
	for _, values := range population.Values {
		requests, err := c.Requests(values)
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

// subjects returns the distinct values of the candidate's fields in a trace, and which of them
// each of the trace's subjects has.
func (c *Candidate) subjects(t *trace.Trace) (distinct [][]string, subjectOf []uint32) {
	subjectOf = make([]uint32, len(t.Subjects))
	if c.byAllFields(t) {
		for i := range subjectOf {
			subjectOf[i] = uint32(i)
		}
		return t.Subjects, subjectOf
	}
	known := map[string]uint32{}
	var joined []byte
	for i, all := range t.Subjects {
		joined = joined[:0]
		for _, field := range c.Fields {
			joined = strconv.AppendInt(joined, int64(len(all[field])), 10)
			joined = append(append(joined, ':'), all[field]...)
		}
		subject, found := known[string(joined)]
		if !found {
			subject = uint32(len(distinct))
			known[string(joined)] = subject
			values := make([]string, len(c.Fields))
			for n, field := range c.Fields {
				values[n] = all[field]
			}
			distinct = append(distinct, values)
		}
		subjectOf[i] = subject
	}
	return distinct, subjectOf
}

// byAllFields reports whether the candidate's fields are those of the trace, in their order, so
// that its subjects are the trace's.
func (c *Candidate) byAllFields(t *trace.Trace) bool {
	for i, field := range c.Fields {
		if field != i {
			return false
		}
	}
	return len(c.Fields) == len(t.Fields)
}
