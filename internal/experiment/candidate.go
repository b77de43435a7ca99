package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Candidate is what one run tries: limits that are decided together, or a policy.
type Candidate struct {
	// Limits are valid ones. A limit without a burst has its count as burst, for every
	// count that is tried.
	Limits []store.Limit
	Policy *policy.Policy
	// Fixed has the attributes of a policy that are the same for all requests of a made-up load.
	Fixed policy.Attributes
}

// Title names the candidate in a few words, by the first of its limits or its policy.
func (c *Candidate) Title() string {
	if c.Policy != nil {
		return "policy " + c.Policy.Name
	}
	limit := c.limits()[0].limit
	if limit.Slices > 1 {
		return fmt.Sprintf("%s,slices=%d", limit.Algorithm, limit.Slices)
	}
	return limit.Algorithm.String()
}

// namedLimit is a limit and what a report calls it.
type namedLimit struct {
	name   string
	limit  store.Limit // normalized
	shadow bool
}

// limits returns the limits of the candidate, without overrides.
func (c *Candidate) limits() []namedLimit {
	var all []namedLimit
	if c.Policy != nil {
		for i := range c.Policy.Limits {
			l := &c.Policy.Limits[i]
			limit, _ := l.Stored().Normalize() // it was checked with the configuration
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
		return c.madeUpByPolicy(subjects)
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

func (c *Candidate) madeUpByPolicy(subjects int) (*population, error) {
	attributesOf := newPairing(c, subjects).of
	all, err := loadgen.NewPopulation(subjects, func(subject int) ([]store.Request, error) {
		return loadgen.PolicyRequests(c.Policy, attributesOf(subject))
	})
	return &population{all, func(subject uint32) string { return attributesOf(int(subject)).Text() }}, err
}

// pairing makes up attribute values so that each limit of a policy is exercised. If every IP
// always came with the same e-mail, the tighter of their two limits would keep the other from
// ever being reached. So the subjects are dealt to groups, one for each set of attributes that
// is limited. In a group, few values of these attributes come with many values of the others.
type pairing struct {
	fixed  policy.Attributes
	madeUp []string // the other attributes
	groups []pairedGroup
	size   int // of a group, rounded up
	// classes has the classes of each attribute that is the class of a request, if that is made up. Subjects take turns.
	classes map[string][]string
}

// pairedGroup is the subjects that are there for the limits by some attributes.
type pairedGroup struct {
	by     []string
	spread int // how many subjects have the same values of these attributes
}

// newPairing returns the pairing of that many subjects.
func newPairing(c *Candidate, subjects int) *pairing {
	p := &pairing{fixed: c.Fixed, classes: map[string][]string{}}
	p.madeUp = slices.DeleteFunc(c.Policy.Needed(), func(name string) bool { return c.Fixed[name] != "" })
	most, least := map[string]int64{}, map[string]int64{} // capacities, by the attributes
	for i := range c.Policy.Limits {
		l := &c.Policy.Limits[i]
		p.addClasses(&l.Classes)
		by := slices.DeleteFunc(slices.Clone(l.By), func(name string) bool { return !slices.Contains(p.madeUp, name) })
		slices.Sort(by)
		if len(by) == 0 {
			continue // all subjects share it
		}
		set, capacity := strings.Join(by, ","), l.Stored().Capacity()
		if _, known := most[set]; !known {
			p.groups = append(p.groups, pairedGroup{by: by})
			most[set], least[set] = capacity, capacity
		}
		most[set], least[set] = max(most[set], capacity), min(least[set], capacity)
	}
	p.size = (subjects + len(p.groups) - 1) / max(1, len(p.groups))
	for i := range p.groups {
		g := &p.groups[i]
		g.spread = 1
		own := strings.Join(g.by, ",")
		for set, capacity := range least {
			// One more than is needed, since loads are not even.
			if most[own] > capacity && set != own {
				g.spread = max(g.spread, int(min((most[own]+capacity-1)/capacity+1, int64(p.size))))
			}
		}
	}
	return p
}

// of returns the attributes of a subject. The subjects of the groups take turns, so that of any
// few busy ones some are of each.
func (p *pairing) of(subject int) policy.Attributes {
	all := policy.Attributes{}
	maps.Copy(all, p.fixed)
	var group *pairedGroup
	index, first := subject, 0
	if n := len(p.groups); n > 0 {
		group, index, first = &p.groups[subject%n], subject/n, subject%n*p.size
	}
	for _, name := range p.madeUp {
		value := first + index
		if group != nil && slices.Contains(group.by, name) {
			value = first + index/group.spread
		}
		all[name] = fmt.Sprintf("%s-%d", name, value)
	}
	for name, classes := range p.classes {
		all[name] = classes[index%len(classes)]
	}
	return all
}

// addClasses adds the classes of a limit, unless their attribute is fixed or made up.
func (p *pairing) addClasses(c *policy.Classes) {
	if p.fixed[c.By] != "" || slices.Contains(p.madeUp, c.By) {
		return
	}
	for _, class := range c.Of {
		if !slices.Contains(p.classes[c.By], class.Name) {
			p.classes[c.By] = append(p.classes[c.By], class.Name)
		}
	}
}
