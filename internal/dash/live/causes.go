package live

import (
	"cmp"
	"slices"
	"strings"
)

// Offender is several denied keys with an attribute or network in common: forty addresses can be one attack.
type Offender struct {
	// By is what they have in common, an attribute or the network of its addresses, and Name its value.
	By, Name string
	Keys     int
	rate     float64 // denials a second by limits
	// Share is how much of all denials by limits these are, 1 being all.
	Share float64
}

// Filter keeps the keys that have it in common.
func (o *Offender) Filter() Filter {
	attribute := strings.TrimSuffix(o.By, " network")
	return Filter{Text: attribute + "=" + o.Name, terms: []term{{attribute: attribute, literal: o.Name}}}
}

// offendersOf finds what is denied most by limits, the worst first. unnamed is the rate of what has no key.
func offendersOf(rows []*Row, unnamed float64) []Offender {
	const most = 3 // are shown
	total, all := unnamed, map[[2]string]*Offender{}
	for _, r := range rows {
		if r.DeniedRate() == 0 || r.IsUnderBlock() {
			continue
		}
		total += r.Denial.placed
		add := func(by, name string) {
			o := cmp.Or(all[[2]string{by, name}], &Offender{By: by, Name: name})
			all[[2]string{by, name}] = o
			o.Keys++
			o.rate += r.Denial.placed
		}
		for _, a := range attributesOf(r.Key) {
			add(a.Name, a.Value)
			if network := networkOf(a.Value); network != "" {
				add(a.Name+" network", network)
			}
		}
	}
	var worst []Offender
	for _, o := range all {
		if o.Keys > 1 {
			o.Share = o.rate / total
			worst = append(worst, *o)
		}
	}
	slices.SortFunc(worst, func(a, b Offender) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.By, b.By), cmp.Compare(a.Name, b.Name))
	})
	return worst[:min(len(worst), most)]
}
