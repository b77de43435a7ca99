// Package policy holds policies: named lists of limits that are decided
// together, each for a subject made of some attributes of a request.
//
// A policy makes requests from attributes, and a limiter decides them:
//
//	login := policy.Policy{Name: "login", Limits: []policy.Limit{
//		{Limit: limiter.Per("ip", 10, time.Minute), By: []string{"ip"}},
//		{Limit: limiter.Per("email", 5, time.Minute), By: []string{"email"}},
//	}}
//	requests, err := login.Requests(policy.Attributes{"ip": "203.0.113.9", "email": "a@example.com"}, 1)
package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Policy is a named list of limits decided together, all or nothing, in the
// order written.
type Policy struct {
	Name string
	// OnError is the failure policy of the requests.
	OnError store.FailurePolicy
	// LocalShare is the part of each limit that a fallback store lets through under [store.LocalOnError]; 0 means
	// [store.DefaultShare].
	LocalShare store.Share
	// HashBy puts all limits into one slot of a Redis Cluster, which so decides them at one instant. The By of every
	// limit begins with these attributes, which alone are the subject of its keys, in place of all of By.
	HashBy []string
	// Wait is how long "limitctl serve" holds a request until its turn, at most [MaxWait]; 0 means not at all. Others
	// do not wait: a service calls Wait of its limiter.
	Wait   time.Duration
	Limits []Limit
}

// MaxWait is the longest wait of a policy. The time-outs of clients and proxies are longer.
const MaxWait = 10 * time.Second

// Limit is one limit of a policy.
type Limit struct {
	// Limit is how much is allowed if no exception applies. Its Name is one of this policy.
	limiter.Limit
	// By names the attributes that together make the subject.
	By []string
	// Cost is the limit's own cost, instead of the cost of the call.
	Cost Cost
	// Exceptions are other limits for some requests; the first that matches applies.
	Exceptions []Exception
	// Classes say how much of the limit each class of callers leaves to others.
	Classes Classes
}

// Exception is another limit for requests that have all attributes of When. Other attributes can have any value. Name
// and Shadow of the limit have no meaning here: they are those of the policy's limit.
type Exception struct {
	When  Attributes
	Limit limiter.Limit
}

// Attributes returns the names of all attributes that the policy can use, in order; needed has those that it
// requires.
func (p *Policy) Attributes() (names []string, needed map[string]bool) {
	needed, all := map[string]bool{}, map[string]bool{}
	for i := range p.Limits {
		l := &p.Limits[i]
		for _, name := range l.By {
			needed[name], all[name] = true, true
		}
		for _, exception := range l.Exceptions {
			for name := range exception.When {
				all[name] = true
			}
		}
		if l.Classes.By != "" {
			all[l.Classes.By] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), needed
}

// Needed returns the names of the attributes that the policy requires, in order.
func (p *Policy) Needed() []string {
	_, needed := p.Attributes()
	return slices.Sorted(maps.Keys(needed))
}

// CheckAttributes returns a [store.ErrInvalid] if no limit of the policy uses one of the attributes.
func (p *Policy) CheckAttributes(attributes Attributes) error {
	known, _ := p.Attributes()
	for _, name := range attributes.Names() {
		if !slices.Contains(known, name) {
			if slices.Contains(p.CostFields(), name) {
				return store.Invalidf("%q is a cost of policy %q and no attribute; give it among the costs", name,
					p.Name)
			}
			return store.Invalidf("unknown attribute %q; policy %q uses %s%s", name, p.Name, strings.Join(known, ", "),
				meant(name, known))
		}
	}
	return nil
}

// meant proposes a known name for an unknown one.
func meant(name string, known []string) string {
	if near := texts.Nearest(name, known, 2); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Requests returns a request for each limit of the policy, for cost units. A limit with its own [Cost] uses that; costs
// has one for each field. What is missing or unknown is a [store.ErrInvalid]. The policy must have no [Problem].
func (p *Policy) Requests(attributes Attributes, cost int64, costs ...FieldCost) ([]limiter.Request, error) {
	reqs, _, err := p.Prepare().AppendRequests(nil, nil, attributes, cost, costs...)
	var requests []limiter.Request
	for i := range reqs {
		requests = append(requests, limiter.RequestOf(reqs[i]))
	}
	return requests, err
}

// For returns the limit that applies to the attributes, and the index of its exception, or -1.
func (l *Limit) For(attributes Attributes) (limit store.Limit, exception int) {
	for i := range l.Exceptions {
		if attributes.has(l.Exceptions[i].When) {
			return l.Exceptions[i].Limit.Stored(), i
		}
	}
	return l.Stored(), -1
}

// Candidate is a limit that can apply to a request.
type Candidate struct {
	Limit store.Limit
	// Exception is the index of the exception that it comes from, or -1.
	Exception int
	// Unknown are the unknown attributes of the exception, in order.
	Unknown []string
}

// Candidates returns the limits that can apply to a request of which only these attributes are known, by precedence.
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

// Key returns the key of a limit of the policy for the attributes, which must include those of its By. The subject
// is the attributes, joined without ambiguity, and the name is "<policy>/<limit>":
//
//	tenant:acme:user:7  api/user-route
//
// With HashBy the subject has only the attributes of HashBy, and the others follow the name: tenant:acme
// api/user-route:user:7
func (p *Policy) Key(l *Limit, attributes Attributes) store.Key {
	key := store.Key{Subject: p.subject(l, attributes), Name: p.Name + "/" + l.Name}
	if n := len(p.HashBy); n > 0 && len(l.By) > n {
		key.Name += ":" + join(l.By[n:], attributes)
	}
	return key
}

func (p *Policy) subject(l *Limit, attributes Attributes) string {
	if len(p.HashBy) > 0 {
		return join(p.HashBy, attributes)
	}
	return join(l.By, attributes)
}

// KeyFields are the parts of a key of a policy's limit.
type KeyFields struct {
	Policy, Limit string
	Attributes    []Attribute
}

// ParseKey splits a key that [Policy.Key] made; it does not need the policy. ok is false for any other key.
func ParseKey(key store.Key) (parts KeyFields, ok bool) {
	policy, limit, attributes, ok := subjecttext.SplitKey(key.Subject, key.Name)
	if !ok || validateOwnName("policy", policy) != nil {
		return KeyFields{}, false
	}
	return KeyFields{Policy: policy, Limit: limit, Attributes: listOf(attributes)}, true
}

// ParseSubject splits a subject that consists of attributes, such as "tenant:acme:user:42", even if no policy made
// it. ok is false for any other.
func ParseSubject(subject string) (attributes []Attribute, ok bool) {
	found, ok := subjecttext.Split(subject)
	return listOf(found), ok
}

// LimitName is the name of the policy and the name of the limit: "api/user-route".
func (p *KeyFields) LimitName() string { return p.Policy + "/" + p.Limit }

// LimitName is the name of a key's limit, without the attributes that a policy can append to it.
func LimitName(key store.Key) string {
	if parts, ok := ParseKey(key); ok {
		return parts.LimitName()
	}
	return key.Name
}
