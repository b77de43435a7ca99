// Package policy holds policies: named lists of limits that are decided
// together, each for a subject made of some attributes of a request.
//
// A policy makes requests of attributes; any [limiter.Store] decides them:
//
//	login := policy.Policy{Name: "login", Limits: []policy.Limit{
//		{Name: "ip", By: []string{"ip"}, Limit: limiter.Limit{Count: 10, Period: time.Minute}},
//		{Name: "email", By: []string{"email"}, Limit: limiter.Limit{Count: 5, Period: time.Minute}},
//	}}
//	reqs, err := login.Requests(policy.Attributes{"ip": "203.0.113.9", "email": "a@example.com"}, 1)
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Policy is a named list of limits decided together, all or nothing, in the
// order written.
type Policy struct {
	Name string
	// OnError is what an unreachable store means for requests under the policy;
	// see [limiter.WithFailurePolicy].
	OnError limiter.FailurePolicy
	// HashBy puts all limits into one slot of a Redis Cluster, so that they are
	// decided at one instant there, too. The By of every limit begins with these
	// attributes, and they alone are the subject of its keys. Without HashBy each
	// limit's subject is all of its By.
	HashBy []string
	Limits []Limit
}

// Limit is one limit of a policy.
type Limit struct {
	Name string
	// By names the attributes that together are who is limited.
	By []string
	// Limit is how much is allowed where no override applies.
	Limit limiter.Limit
	// Overrides are other limits for some requests; the first that matches applies.
	Overrides []Override
	// Shadow: the limit is counted and reported, but never denies.
	Shadow bool
}

// Override is how much is allowed to requests that have all attributes of When, whatever
// their other attributes are.
type Override struct {
	When  Attributes
	Limit limiter.Limit
}

// Problem is a mistake in a policy. Path says where it is, from the policy on:
// "limits[1].overrides[0].when".
type Problem struct {
	Path string
	Text string
}

// Problems returns all that is wrong with the policy, in the order of its parts.
func (p *Policy) Problems() []Problem {
	var problems []Problem
	add := func(path, format string, args ...any) {
		problems = append(problems, Problem{path, fmt.Sprintf(format, args...)})
	}
	if err := validateOwnName("policy", p.Name); err != nil {
		add("", "%s", err)
	}
	if len(p.Limits) == 0 {
		add("limits", "policy %q has no limits; add at least one", p.Name)
	}
	if len(p.Limits) > limiter.MaxRequests {
		add("limits", "policy %q has %d limits; at most %d are decided together", p.Name, len(p.Limits), limiter.MaxRequests)
	}
	for _, text := range duplicates(p.HashBy) {
		add("hash_by", "attribute %q is named twice; name it once", text)
	}
	for i := range p.Limits {
		limit, path := &p.Limits[i], fmt.Sprintf("limits[%d]", i)
		if err := validateOwnName("limit", limit.Name); err != nil {
			add(path+".name", "%s", err)
		} else if first := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == limit.Name }); first < i {
			add(path+".name", "limits %d and %d of policy %q are both named %q, so they would share keys; rename one", first+1, i+1,
				p.Name, limit.Name)
		}
		limit.problems(path, add)
		if n := len(p.HashBy); len(limit.By) > 0 && (len(limit.By) < n || !slices.Equal(limit.By[:n], p.HashBy)) {
			add(path+".by", "limit %q has by: %s, which must begin with the policy's hash_by: %s, so that all keys are in one slot",
				limit.Name, list(limit.By), list(p.HashBy))
		}
	}
	return problems
}

func (l *Limit) problems(path string, add func(path, format string, args ...any)) {
	if len(l.By) == 0 {
		add(path+".by", "limit %q has no attributes in by; name at least one, such as by: [ip]", l.Name)
	}
	for _, name := range l.By {
		if err := ValidateName("attribute", name); err != nil {
			add(path+".by", "%s", err)
		}
	}
	for _, name := range duplicates(l.By) {
		add(path+".by", "attribute %q is named twice; name it once", name)
	}
	if _, err := l.Limit.Normalize(); err != nil {
		add(path+".limit", "%s", err)
	}
	// An override that applies to all another would has, of each of its attributes,
	// the other's value: so it is found by the first of them.
	byFirst := map[Attribute][]int{}
	for i, override := range l.Overrides {
		at := fmt.Sprintf("%s.overrides[%d]", path, i)
		if len(override.When) == 0 {
			add(at+".when", "the override has no attributes in when; name at least one, such as when: {tenant: acme}")
			continue
		}
		for _, name := range override.When.Names() {
			if err := ValidateName("attribute", name); err != nil {
				add(at+".when", "%s", err)
			} else if override.When[name] == "" {
				add(at+".when", "attribute %q is empty; give it a value, since requests always have one", name)
			}
		}
		if _, err := override.Limit.Normalize(); err != nil {
			add(at+".limit", "%s", err)
		}
		before := i
		for name, value := range override.When {
			for _, j := range byFirst[Attribute{name, value}] {
				if j < before && override.When.has(l.Overrides[j].When) {
					before = j
				}
			}
		}
		if before < i {
			add(at+".when", "override %d of limit %q is never reached, because override %d matches first; move it up or remove it",
				i+1, l.Name, before+1)
		}
		first := override.When.Names()[0]
		byFirst[Attribute{first, override.When[first]}] = append(byFirst[Attribute{first, override.When[first]}], i)
	}
}

// validateOwnName is ValidateName for what stands in the names of keys, where an
// algorithm's name begins that of a limit without a name of its own.
func validateOwnName(what, name string) error {
	if _, err := limiter.ParseAlgorithm(name); err == nil && what == "policy" {
		return limiter.Invalidf("policy name %q is the name of an algorithm; choose another, since its keys would look like those "+
			"of unnamed limits", name)
	}
	return ValidateName(what, name)
}

func duplicates(names []string) []string {
	var twice []string
	for i, name := range names {
		if slices.Contains(names[:i], name) && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
	}
	return twice
}

func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

// Attributes returns the names of all attributes that the policy can use, in
// order; needed tells those it cannot do without.
func (p *Policy) Attributes() (names []string, needed map[string]bool) {
	needed = map[string]bool{}
	all := map[string]bool{}
	for i := range p.Limits {
		for _, name := range p.Limits[i].By {
			needed[name], all[name] = true, true
		}
		for _, override := range p.Limits[i].Overrides {
			for name := range override.When {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), needed
}

// CheckAttributes reports, as a [limiter.ErrInvalid], the attributes that no
// limit of the policy uses: a misspelled one could keep an override from applying.
func (p *Policy) CheckAttributes(attributes Attributes) error {
	known, _ := p.Attributes()
	for _, name := range attributes.Names() {
		if !slices.Contains(known, name) {
			return limiter.Invalidf("unknown attribute %q; policy %q uses %s", name, p.Name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Requests returns the request that each limit of the policy makes of the
// attributes, for cost units. An attribute that is missing or unknown is a
// [limiter.ErrInvalid] that names it. The policy must have no [Problem].
func (p *Policy) Requests(attributes Attributes, cost int64) ([]limiter.Request, error) {
	reqs, _, err := p.RequestsWithOverrides(attributes, cost)
	return reqs, err
}

// RequestsWithOverrides is [Policy.Requests] that also says, for each request, the index
// of the override that its limit comes from, or -1.
func (p *Policy) RequestsWithOverrides(attributes Attributes, cost int64) (reqs []limiter.Request, overrides []int, err error) {
	if err := p.CheckAttributes(attributes); err != nil {
		return nil, nil, err
	}
	var missing []string
	for i := range p.Limits {
		for _, name := range p.Limits[i].By {
			if attributes[name] == "" && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		noun := "attribute"
		if len(missing) > 1 {
			noun = "attributes"
		}
		return nil, nil, limiter.Invalidf("policy %q needs the %s %s; add %s=VALUE", p.Name, noun, strings.Join(missing, " and "),
			strings.Join(missing, "=VALUE "))
	}
	reqs = make([]limiter.Request, 0, len(p.Limits))
	for i := range p.Limits {
		l := &p.Limits[i]
		limit, override := l.For(attributes)
		overrides = append(overrides, override)
		reqs = append(reqs, limiter.Request{Key: p.Key(l, attributes), Limit: limit, Cost: cost, Shadow: l.Shadow})
	}
	return reqs, overrides, nil
}

// For returns the limit that counts for the attributes, and the index of the
// override it comes from, or -1.
func (l *Limit) For(attributes Attributes) (limit limiter.Limit, override int) {
	for i := range l.Overrides {
		if attributes.has(l.Overrides[i].When) {
			return l.Overrides[i].Limit, i
		}
	}
	return l.Limit, -1
}

// Key returns the key of one of the policy's limits for the attributes, which
// must have those of its By. The subject is the attributes, joined without
// ambiguity, and the name is "<policy>/<limit>":
//
//	tenant:acme:user:7  api/user-route
//
// Under HashBy the subject is those attributes alone, and the others follow the
// name: tenant:acme  api/user-route:user:7
func (p *Policy) Key(l *Limit, attributes Attributes) limiter.Key {
	name := p.Name + "/" + l.Name
	if n := len(p.HashBy); n > 0 {
		key := limiter.Key{Subject: join(p.HashBy, attributes), Name: name}
		if len(l.By) > n {
			key.Name += ":" + join(l.By[n:], attributes)
		}
		return key
	}
	return limiter.Key{Subject: join(l.By, attributes), Name: name}
}

// Parts are what a key of a policy's limit was made of.
type Parts struct {
	Policy, Limit string
	Attributes    []Attribute
}

// ParseKey takes a key apart that [Policy.Key] made, with no policy at hand. ok
// is false for any other key.
func ParseKey(key limiter.Key) (parts Parts, ok bool) {
	name, more, hasMore := strings.Cut(key.Name, ":")
	parts.Policy, parts.Limit, ok = strings.Cut(name, "/")
	if !ok || validateOwnName("policy", parts.Policy) != nil || ValidateName("limit", parts.Limit) != nil {
		return Parts{}, false
	}
	if parts.Attributes, ok = split(key.Subject); !ok {
		return Parts{}, false
	}
	if hasMore {
		rest, ok := split(more)
		if !ok {
			return Parts{}, false
		}
		parts.Attributes = append(parts.Attributes, rest...)
	}
	return parts, true
}

// Has reports whether the parts hold all of those attributes.
func (p *Parts) Has(attributes Attributes) bool {
	for name, value := range attributes {
		if !slices.Contains(p.Attributes, Attribute{name, value}) {
			return false
		}
	}
	return true
}
