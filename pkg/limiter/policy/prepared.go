package policy

import (
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Prepared is a policy with precomputed parts, which makes requests with little work. It is safe for concurrent
// use. Do not change the policy any more.
type Prepared struct {
	*Policy
	known, needed []string
	costs         []string // the fields that are costs
	limits        []preparedLimit
}

// preparedLimit is what is known about the keys of a limit without attributes.
type preparedLimit struct {
	// name is the name of the keys, unless HashBy appends attributes to it.
	name      string
	fixedName bool
	// like is the index of the first limit of the policy with the same subject, perhaps itself.
	like int
}

// Prepare precomputes the parts of p. The policy must have no [Problem].
func (p *Policy) Prepare() *Prepared {
	prepared := &Prepared{Policy: p, needed: p.Needed(), costs: p.CostFields()}
	prepared.known, _ = p.Attributes()
	for i := range p.Limits {
		limit := preparedLimit{name: p.Name + "/" + p.Limits[i].Name, fixedName: len(p.HashBy) == 0 || len(p.Limits[i].By) == len(p.HashBy)}
		limit.like = slices.IndexFunc(p.Limits, func(other Limit) bool {
			return len(p.HashBy) > 0 || slices.Equal(other.By, p.Limits[i].By)
		})
		prepared.limits = append(prepared.limits, limit)
	}
	return prepared
}

// AppendRequests is [Policy.RequestsWithExceptions], but appends to slices, which may be nil. It leaves them
// unchanged on an error.
func (p *Prepared) AppendRequests(
	reqs []store.Request, exceptions []int, attributes Attributes, cost int64, costs ...FieldCost,
) ([]store.Request, []int, error) {
	if !p.accepts(attributes) || !p.acceptsCosts(costs) {
		_, _, err := p.RequestsWithExceptions(attributes, cost, costs...)
		return reqs, exceptions, err
	}
	first := len(reqs)
	for i := range p.Limits {
		l, prepared := &p.Limits[i], &p.limits[i]
		limit, exception := l.For(attributes)
		req := l.request(store.Key{}, limit, l.Cost.of(cost, costs), attributes)
		switch {
		case !prepared.fixedName:
			req.Key = p.Key(l, attributes)
		case prepared.like < i:
			req.Key = store.Key{Subject: reqs[first+prepared.like].Key.Subject, Name: prepared.name}
		case len(p.HashBy) > 0:
			req.Key = store.Key{Subject: join(p.HashBy, attributes), Name: prepared.name}
		default:
			req.Key = store.Key{Subject: join(l.By, attributes), Name: prepared.name}
		}
		reqs, exceptions = append(reqs, req), append(exceptions, exception)
	}
	return reqs, exceptions, nil
}

// accepts reports whether attributes has all that the policy requires, and none that it does not use.
func (p *Prepared) accepts(attributes Attributes) bool {
	for _, name := range p.needed {
		if attributes[name] == "" {
			return false
		}
	}
	found := 0
	for _, name := range p.known {
		if _, there := attributes[name]; there {
			found++
		}
	}
	return found == len(attributes)
}

// acceptsCosts is accepts for costs: each required one once, and no other.
func (p *Prepared) acceptsCosts(costs []FieldCost) bool {
	if len(costs) == 0 && len(p.costs) == 0 {
		return true
	}
	return len(costs) == len(p.costs) && p.checkCosts(costs, p.costs) == nil
}
