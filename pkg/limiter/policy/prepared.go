package policy

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Prepared is a policy with precomputed parts, which makes requests with little work. It is safe for concurrent
// use. Do not change the policy any more.
type Prepared struct {
	*Policy
	known, needed []string
	costs         []string // the fields that are costs
	// like has for each limit the index of the first one with the same subject, perhaps itself.
	like []int
	// names has for each limit the name of its keys; "" if HashBy appends attributes to it.
	names []string
}

// Prepare precomputes the parts of p. The policy must have no [Problem].
func (p *Policy) Prepare() *Prepared {
	prepared := &Prepared{Policy: p, needed: p.Needed(), costs: p.CostFields()}
	prepared.known, _ = p.Attributes()
	for i := range p.Limits {
		l, name := &p.Limits[i], ""
		if n := len(p.HashBy); n == 0 || n == len(l.By) {
			name = p.Name + "/" + l.Name
		}
		prepared.names = append(prepared.names, name)
		prepared.like = append(prepared.like, slices.IndexFunc(p.Limits, func(other Limit) bool {
			return len(p.HashBy) > 0 || slices.Equal(other.By, l.By)
		}))
	}
	return prepared
}

// AppendRequests appends a request for each limit of the policy, as [Policy.Requests] makes them, but of package store,
// and for each the index of the exception that applies, or -1. It appends nothing on an error.
func (p *Prepared) AppendRequests(
	reqs []store.Request, exceptions []int, attributes Attributes, cost int64, costs ...FieldCost,
) ([]store.Request, []int, error) {
	if err := p.check(attributes, costs); err != nil {
		return reqs, exceptions, err
	}
	first := len(reqs)
	for i := range p.Limits {
		l := &p.Limits[i]
		limit, exception := l.For(attributes)
		var key store.Key
		switch {
		case p.names[i] == "":
			key = p.Key(l, attributes)
		case p.like[i] < i:
			key = store.Key{Subject: reqs[first+p.like[i]].Key.Subject, Name: p.names[i]}
		default:
			key = store.Key{Subject: p.subject(l, attributes), Name: p.names[i]}
		}
		reqs = append(reqs, store.Request{
			Key: key, Limit: limit, Cost: l.Cost.of(cost, costs), Leave: l.Leave(limit, attributes), Shadow: l.Shadow,
		})
		exceptions = append(exceptions, exception)
	}
	return reqs, exceptions, nil
}

// check returns a [store.ErrInvalid] that names what is missing or unknown.
func (p *Prepared) check(attributes Attributes, costs []FieldCost) error {
	found := 0
	for _, name := range p.known {
		if _, given := attributes[name]; given {
			found++
		}
	}
	if found < len(attributes) {
		return p.CheckAttributes(attributes)
	}
	var missing []string
	for _, name := range p.needed {
		if attributes[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		noun := "attribute"
		if len(missing) > 1 {
			noun = "attributes"
		}
		return store.Invalidf("policy %q needs the %s %s; add %s=VALUE", p.Name, noun, strings.Join(missing, " and "),
			strings.Join(missing, "=VALUE "))
	}
	return p.checkCosts(costs, p.costs)
}
