package httplimit

import (
	"net/http"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bytesField is the cost that every request has: the length of its body.
const bytesField = "bytes"

// Sourced returns the names for which a [Rule] needs a source so that p can limit requests: the attributes that p
// needs, and the fields that are costs, except bytes, which has Content-Length.
func Sourced(p *policy.Policy) []string {
	return append(p.Needed(), slices.DeleteFunc(p.CostFields(), func(field string) bool { return field == bytesField })...)
}

// Costs appends to costs what r costs for the limits of p whose cost is a field. It moves such fields out of
// attributes. Without a source, the field bytes is the Content-Length, and at least 1, since each request costs
// something. A missing cost is a [limiter.ErrInvalid] in the words of a client.
func (rule *Rule) Costs(
	p *policy.Policy, r *http.Request, attributes policy.Attributes, costs []policy.FieldCost,
) ([]policy.FieldCost, error) {
	fields := p.CostFields()
	if len(fields) == 0 {
		return costs, nil
	}
	needed := slices.Clone(fields)
	if _, has := attributes[bytesField]; !has && rule.Attributes[bytesField].kind == 0 && slices.Contains(fields, bytesField) {
		if r.ContentLength < 0 {
			return costs, store.Invalidf("the request must have a Content-Length, as its bytes are counted")
		}
		costs = append(costs, policy.FieldCost{Field: bytesField, Units: max(1, r.ContentLength)})
		needed = slices.DeleteFunc(needed, func(field string) bool { return field == bytesField })
	}
	if err := rule.missing(needed, attributes); err != nil {
		return costs, err
	}
	return p.CostsIn(attributes, costs)
}
