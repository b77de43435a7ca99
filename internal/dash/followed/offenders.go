package followed

import (
	"cmp"
	"slices"

	"github.com/limitctl/limitctl/internal/dash/source"
)

// Offender is several denied keys that have an attribute or a network in common, which a list of keys hides: forty
// addresses with one denial a second each are one attack.
type Offender struct {
	By   source.Grouping
	Name string
	Keys int
	Rate float64 // denials a second by limits
}

// Filter keeps the keys that have it in common.
func (o *Offender) Filter() Filter {
	return Filter{Text: o.By.Attribute + "=" + o.Name, terms: []term{{attribute: o.By.Attribute, literal: o.Name}}}
}

// mostOffenders is how many are shown.
const mostOffenders = 3

// OffendersOf finds, for each attribute and its networks, what is denied most, the worst first. What is one key alone
// is a row already, and a block denies as it should.
func OffendersOf(rows []*Row) []Offender {
	all := map[source.Grouping]map[string]*Offender{}
	add := func(by source.Grouping, name string, rate float64) {
		if all[by] == nil {
			all[by] = map[string]*Offender{}
		}
		o := all[by][name]
		if o == nil {
			o = &Offender{By: by, Name: name}
			all[by][name] = o
		}
		o.Keys++
		o.Rate += rate
	}
	for _, r := range rows {
		if r.DeniedRate() == 0 || r.IsBlocked() {
			continue
		}
		for i := range r.Attributes {
			a := &r.Attributes[i]
			add(source.Grouping{Attribute: a.Name}, a.Value, r.Denial.Placed)
			if network := source.NetworkOf(a.Value); network != "" {
				add(source.Grouping{Attribute: a.Name, Network: true}, network, r.Denial.Placed)
			}
		}
	}
	var worst []Offender
	for _, groups := range all {
		var top *Offender
		for _, o := range groups {
			if o.Keys > 1 && (top == nil || o.before(top) < 0) {
				top = o
			}
		}
		if top != nil {
			worst = append(worst, *top)
		}
	}
	slices.SortFunc(worst, func(a, b Offender) int { return a.before(&b) })
	return worst[:min(len(worst), mostOffenders)]
}

func (o *Offender) before(other *Offender) int {
	return cmp.Or(cmp.Compare(other.Rate, o.Rate), cmp.Compare(o.By.String(), other.By.String()), cmp.Compare(o.Name, other.Name))
}
