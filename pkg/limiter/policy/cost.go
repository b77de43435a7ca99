package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Cost is the cost of a call for one limit. The zero Cost is the cost that the call gives for all limits.
type Cost struct {
	// Units, if not zero, is the cost of every call.
	Units int64
	// Field, if not empty, names the number that is the cost of each call, such as "tokens"; see [FieldCost].
	Field string
}

// FieldCost is the cost of a call for the limits whose cost is that field.
type FieldCost struct {
	Field string
	Units int64
}

// ParseCost reads a cost: a whole number of units, or the name of a field. The error is a [store.ErrInvalid].
func ParseCost(text string) (Cost, error) {
	if subjecttext.IsName(text) {
		return Cost{Field: text}, nil
	}
	units, err := store.ParseNumber("cost", text, 1, store.MaxCount)
	if err != nil {
		return Cost{}, store.Invalidf(
			"cost %q is not valid; it must be a whole number from 1 to %d, or the name of a field such as tokens",
			text, store.MaxCount)
	}
	return Cost{Units: units}, nil
}

// check returns what is wrong with c.
func (c Cost) check() error {
	switch {
	case c.Field == "" && (c.Units < 0 || c.Units > store.MaxCount):
		return store.Invalidf("cost %d is out of range; it must be from 1 to %d", c.Units, store.MaxCount)
	case c.Field != "" && c.Units != 0:
		return store.Invalidf("cost %d is a number and also the field %q; give one of them", c.Units, c.Field)
	case c.Field != "":
		return ValidateName("cost", c.Field)
	}
	return nil
}

// String returns the cost as ParseCost reads it; it is empty for the zero Cost.
func (c Cost) String() string {
	if c.Units != 0 {
		return strconv.FormatInt(c.Units, 10)
	}
	return c.Field
}

// ParseFieldCost reads the cost of a field, such as tokens and 3000. An error is a [store.ErrInvalid].
func ParseFieldCost(field, text string) (FieldCost, error) {
	if err := ValidateName("cost", field); err != nil {
		return FieldCost{}, err
	}
	units, err := store.ParseNumber("cost", text, 0, store.MaxCount)
	if err != nil {
		return FieldCost{}, store.Invalidf("cost %s is %q; it must be a whole number from 0 to %d", field, text,
			store.MaxCount)
	}
	return FieldCost{field, units}, nil
}

// CostFields returns the names of the fields that are costs of the policy's limits, in the order of the limits.
func (p *Policy) CostFields() []string {
	var fields []string
	for i := range p.Limits {
		if field := p.Limits[i].Cost.Field; field != "" && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// HasOwnCosts reports whether a limit has its own cost, so that a call can charge the limits differently.
func (p *Policy) HasOwnCosts() bool {
	return slices.ContainsFunc(p.Limits, func(l Limit) bool { return l.Cost != Cost{} })
}

// AllCosts returns the costs of a call with units for each field, for callers that need only its keys and limits.
func (p *Policy) AllCosts(units int64) []FieldCost {
	var costs []FieldCost
	for _, field := range p.CostFields() {
		costs = append(costs, FieldCost{field, units})
	}
	return costs
}

// CheckCost returns a [store.ErrInvalid] if op does not fit that cost for all limits. A cost that the caller said needs
// a limit that uses it. TakeUpTo takes the same number from each limit, so none can have its own cost.
func (p *Policy) CheckCost(op store.Op, cost int64, said bool) error {
	own := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Cost != Cost{} })
	plain := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Cost == Cost{} })
	fields := p.CostFields()
	switch {
	case own >= 0 && op == store.TakeUpTo:
		return store.Invalidf("what fits is one number for all limits, and limit %q of policy %q has cost: %s; ask "+
			"for exact costs instead",
			p.Limits[own].Name, p.Name, p.Limits[own].Cost)
	case plain < 0 && len(fields) == 0 && op == store.Settle:
		return store.Invalidf("there is nothing to settle, as each limit of policy %q has a fixed cost", p.Name)
	case plain >= 0 && op == store.Settle && !said:
		return store.Invalidf("limit %q of policy %q has no cost of its own; say its real cost, too",
			p.Limits[plain].Name, p.Name)
	case plain >= 0 || !said:
		return nil
	case len(fields) == 0:
		return store.Invalidf("cost %d is for no limit of policy %q, as each has a fixed cost; leave it out", cost,
			p.Name)
	}
	return store.Invalidf("cost %d is for no limit of policy %q, as each has a cost of its own; say what it is of, "+
		"such as %s=%d", cost,
		p.Name, fields[0], cost)
}

// CostsIn moves the costs of the policy's fields out of attributes, and appends them to costs. A text that is no number
// of units is a [store.ErrInvalid].
func (p *Policy) CostsIn(attributes Attributes, costs []FieldCost) ([]FieldCost, error) {
	for _, field := range p.CostFields() {
		text, has := attributes[field]
		if !has {
			continue
		}
		cost, err := ParseFieldCost(field, text)
		if err != nil {
			return costs, err
		}
		delete(attributes, field)
		costs = append(costs, cost)
	}
	return costs, nil
}

// checkCosts reports costs that are missing, unknown, given twice or out of range.
func (p *Policy) checkCosts(costs []FieldCost, fields []string) error {
	for i, cost := range costs {
		switch {
		case slices.ContainsFunc(costs[:i], func(c FieldCost) bool { return c.Field == cost.Field }):
			return store.Invalidf("cost %q is given twice; keep one", cost.Field)
		case len(fields) == 0:
			return store.Invalidf("unknown cost %q; no limit of policy %q has a field as its cost", cost.Field, p.Name)
		case !slices.Contains(fields, cost.Field):
			return store.Invalidf("unknown cost %q; policy %q has %s%s", cost.Field, p.Name, strings.Join(fields, ", "),
				meant(cost.Field, fields))
		case cost.Units < 0 || cost.Units > store.MaxCount:
			return store.Invalidf("cost %s is %d; it must be a whole number from 0 to %d", cost.Field, cost.Units,
				store.MaxCount)
		}
	}
	for _, field := range fields {
		if !slices.ContainsFunc(costs, func(c FieldCost) bool { return c.Field == field }) {
			return store.Invalidf("policy %q needs the cost %s; add %s=UNITS to the costs", p.Name, field, field)
		}
	}
	return nil
}

// UnitsOf returns the units that a call charges to each limit, in their order. A cost that is missing or unknown is a
// [store.ErrInvalid].
func (p *Policy) UnitsOf(cost int64, costs ...FieldCost) ([]int64, error) {
	if err := p.checkCosts(costs, p.CostFields()); err != nil {
		return nil, err
	}
	units := make([]int64, len(p.Limits))
	for i := range p.Limits {
		units[i] = p.Limits[i].Cost.of(cost, costs)
	}
	return units, nil
}

// of returns the units of a call with these costs, which have been checked.
func (c Cost) of(call int64, costs []FieldCost) int64 {
	switch {
	case c.Units != 0:
		return c.Units
	case c.Field == "":
		return call
	}
	return costs[slices.IndexFunc(costs, func(cost FieldCost) bool { return cost.Field == c.Field })].Units
}
