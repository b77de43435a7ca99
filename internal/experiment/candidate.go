package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Candidate is what one run tries: limits that are decided together, or a policy.
type Candidate struct {
	// Limits are valid ones. A limit without a burst has its count as burst, for every count that is tried.
	Limits []store.Limit
	Policy *policy.Policy
	// Fixed has the attributes of a policy that are the same for all requests of a made-up load.
	Fixed policy.Attributes
}

// Title names the candidate by the first of its limits or its policy.
func (c *Candidate) Title() string {
	if c.Policy != nil {
		return "policy " + c.Policy.Name
	}
	return c.limits()[0].limit.String()
}

// namedLimit is a limit and what a report calls it.
type namedLimit struct {
	name   string
	limit  store.Limit // normalized
	shadow bool
}

// limits returns the limits of the candidate. Of a policy they are those of requests with the fixed attributes alone.
func (c *Candidate) limits() []namedLimit {
	var all []namedLimit
	if c.Policy != nil {
		for i := range c.Policy.Limits {
			l := &c.Policy.Limits[i]
			candidates := l.Candidates(c.Fixed)
			at := slices.IndexFunc(candidates, func(may policy.Candidate) bool { return len(may.Unknown) == 0 })
			limit, _ := candidates[at].Limit.Normalize() // it was checked with the configuration
			all = append(all, namedLimit{l.Name, limit, l.Shadow})
		}
		return all
	}
	for _, limit := range c.Limits {
		limit, _ = limit.Normalize() // it is valid
		all = append(all, namedLimit{name: limit.DefaultName(), limit: limit})
	}
	return all
}

// population is who asks in a run, and for what.
type population struct {
	*loadgen.Population
	// nameOf is what a report calls a subject.
	nameOf func(subject uint32) string
}

// madeUp returns a population of that many made-up subjects.
func (c *Candidate) madeUp(subjects int) (*population, error) {
	if c.Policy != nil {
		m := newMakeUp(c)
		if subjects > 1 && len(m.names)+len(m.classes) == 0 {
			return nil, store.Invalidf("%d keys, and all attributes of policy %s are given; leave out one of them, or "+
				"ask by 1 key", subjects, c.Policy.Name)
		}
		all, err := loadgen.NewPopulation(subjects, func(subject int) ([]store.Request, error) {
			return loadgen.PolicyRequests(c.Policy, m.of(subject))
		})
		return &population{all, func(subject uint32) string { return m.of(int(subject)).Text() }}, err
	}
	nameOf := func(subject uint32) string { return "user:" + strconv.FormatUint(uint64(subject), 10) }
	requests := make([]store.Request, len(c.Limits))
	all, err := loadgen.NewPopulation(subjects, func(subject int) ([]store.Request, error) {
		key := store.Key{Subject: nameOf(uint32(subject))}
		for i, limit := range c.Limits {
			requests[i] = store.Request{Key: key, Limit: limit}
		}
		return requests, nil
	})
	return &population{all, nameOf}, err
}

// makeUp makes up attribute values. If every IP always came with the same e-mail, the tighter of their two limits would
// keep the other from ever being reached. So subjects take turns: each shares one attribute with others and has the
// rest for itself, or shares none.
type makeUp struct {
	fixed policy.Attributes
	names []string // of the other attributes
	// classes has the classes of each attribute that is the class of a request, if that is made up.
	classes map[string][]string
}

func newMakeUp(c *Candidate) *makeUp {
	m := &makeUp{fixed: c.Fixed, classes: map[string][]string{}}
	m.names = slices.DeleteFunc(c.Policy.Needed(), func(name string) bool { return c.Fixed[name] != "" })
	for i := range c.Policy.Limits {
		of := &c.Policy.Limits[i].Classes
		if m.fixed[of.By] != "" || slices.Contains(m.names, of.By) {
			continue
		}
		for _, class := range of.Of {
			if !slices.Contains(m.classes[of.By], class.Name) {
				m.classes[of.By] = append(m.classes[of.By], class.Name)
			}
		}
	}
	return m
}

// of returns the attributes of a subject.
func (m *makeUp) of(subject int) policy.Attributes {
	all := policy.Attributes{}
	maps.Copy(all, m.fixed)
	turns := len(m.names) + 1
	if len(m.names) == 1 {
		turns = 1 // there is nothing to keep apart
	}
	for i, name := range m.names {
		value := subject
		if turns > 1 && subject%turns == i {
			value = 0
		}
		all[name] = fmt.Sprintf("%s-%d", name, value)
	}
	for name, classes := range m.classes {
		all[name] = classes[subject/turns%len(classes)]
	}
	return all
}
