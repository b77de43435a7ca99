package loadgen

import (
	"context"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Suggestion is the lowest count that fulfils a condition.
type Suggestion struct {
	// Limit is the limit with that count, and Tally its result.
	Limit store.Limit
	Tally *Tally
	// Kept is false if no count fulfils the condition; Limit then has the highest possible count.
	Kept bool
	// Below is the result for one unit less, which does not fulfil it. It is nil if there is no such limit.
	Below *Tally
}

// Suggest searches the lowest count, for the limit's algorithm, period and burst, that fulfils a condition on a
// trace with the fields as the subject; kept reports whether the result of a count fulfils it. Without a burst in
// limit, the burst is the count.
//
// It doubles the count until the condition is fulfilled, and then halves the distance to a count that failed, so
// one unit less fails. Lower counts fail, too, as long as a higher count never denies more. Requests of different
// costs and the edges of windows can break that rule in places.
func Suggest(ctx context.Context, t *trace.Trace, limit store.Limit, kept func(*Tally) bool, fields ...int) (
	Suggestion, error) {
	greatest := limit.Algorithm.MaxCount()
	if _, err := withCount(limit, greatest).Normalize(); err != nil {
		return Suggestion{}, err
	}
	_, requests := groupBySubject(t, &Candidate{Fields: fields})
	var best, below *Tally
	broken, enough := int64(0), int64(0)
	for count := int64(1); ; {
		var tally *Tally
		// a burst can be too high for a low count
		if normalized, err := withCount(limit, count).Normalize(); err == nil {
			result, err := requests.decide(ctx, normalized, func(int64, int64) {}, func(*trace.Request, bool, int64) {})
			if err != nil {
				return Suggestion{}, err
			}
			tally = &result
		}
		switch {
		case tally != nil && kept(tally):
			enough, best = count, tally
		case count == greatest:
			return Suggestion{Limit: withCount(limit, count), Tally: tally}, nil
		default:
			broken, below = count, tally
		}
		switch {
		case enough == 0:
			count = min(2*count, greatest)
		case enough-broken > 1:
			count = broken + (enough-broken)/2
		default:
			return Suggestion{Limit: withCount(limit, enough), Tally: best, Kept: true, Below: below}, nil
		}
	}
}

func withCount(limit store.Limit, count int64) store.Limit {
	limit.Count = count
	return limit
}

// Candidate is a limit, or several decided together, to try on a trace.
type Candidate struct {
	// Fields are the fields of the trace that make the subject, as indexes into [trace.Trace.Fields].
	Fields []int
	// Requests returns the requests to decide together, always in the same order, for a subject with these values.
	// Subjects whose requests have a key in common share its state; otherwise the keys mean nothing. A request with
	// a cost always has that cost; a cost of 0 is replaced by the cost of the load.
	Requests func(subject []string) ([]store.Request, error)
	// as, if set, replaces the value of a field, whose index is that in Fields.
	as func(field int, value string) string
	// limits, if set, are those of every subject, on keys that it does not share.
	limits []store.Limit
}

// UnderLimits returns the candidate of limits that are decided together, with all of the fields as the subject.
func UnderLimits(fields []int, limits ...store.Limit) Candidate {
	return Candidate{Fields: fields, limits: limits, Requests: func(subject []string) ([]store.Request, error) {
		requests := make([]store.Request, len(limits))
		for i, limit := range limits {
			requests[i] = store.Request{Key: store.Key{Subject: strings.Join(subject, "\x00")}, Limit: limit}
		}
		return requests, nil
	}}
}

// UnderPolicy returns the candidate of a policy, with its overrides and shadow limits. Each attribute has the value
// of the field with the same index, as requests have it by http, and is missing if that is empty.
func UnderPolicy(fields []int, attributes []string, p *policy.Policy, http *httplimit.Settings) Candidate {
	var as func(field int, value string) string
	if len(http.Rules[p.Name].Attributes) > 0 { // else the subjects can stay as they are
		as = func(field int, value string) string { return http.Client(p.Name, attributes[field], value) }
	}
	return Candidate{Fields: fields, as: as, Requests: func(subject []string) ([]store.Request, error) {
		given := policy.Attributes{}
		for i, value := range subject {
			if value != "" {
				given[attributes[i]] = value
			}
		}
		return PolicyRequests(p, given)
	}}
}

// PolicyRequests returns the requests of a policy for attributes, for a load whose requests have one cost each.
// That cost is for the limits whose cost is a field, or if there are none, for those without their own cost. All
// other limits have a constant cost, by default 1. More than one field is a [store.ErrInvalid].
func PolicyRequests(p *policy.Policy, attributes policy.Attributes) ([]store.Request, error) {
	fields := p.CostFields()
	if len(fields) > 1 {
		return nil, store.Invalidf("policy %q has the costs %s, and the requests of a load have one; try it with "+
			"limits that "+
			"have one of them",
			p.Name, strings.Join(fields, " and "))
	}
	requests, _, err := p.Prepare().AppendRequests(nil, nil, attributes, 1, p.AllCosts(1)...)
	for i := range requests {
		cost := p.Limits[i].Cost
		if cost.Field != "" || len(fields) == 0 && cost.Units == 0 {
			requests[i].Cost = 0 // the cost of the load replaces it
		}
	}
	return requests, err
}

// TracePopulation has the requests of the subjects of a trace under a candidate.
type TracePopulation struct {
	*Population
	// Values are the values of the candidate's fields for each subject of the Population.
	Values    *trace.Subjects
	subjectOf []uint32 // of the trace's subjects; nil if they are the Population's
}

// SubjectOf converts a subject of the trace to one of the Population.
func (p *TracePopulation) SubjectOf(subject uint32) uint32 {
	if p.subjectOf == nil {
		return subject
	}
	return p.subjectOf[subject]
}

// Population returns the requests of a trace's subjects under the candidate. A wrong limit is a [store.ErrInvalid].
func (c *Candidate) Population(t *trace.Trace) (*TracePopulation, error) {
	population := new(TracePopulation)
	population.Values, population.subjectOf = t.Subjects.By(c.Fields, c.as)
	var err error
	population.Population, err = NewPopulation(population.Values.Len(), func(subject int) ([]store.Request, error) {
		return c.Requests(population.Values.At(uint32(subject)))
	})
	return population, err
}
