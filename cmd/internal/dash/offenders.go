package dash

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// offender is several denied keys that have an attribute or a network in common, which a list of keys hides: forty
// addresses with one denial a second each are one attack.
type offender struct {
	by   source.Grouping
	name string
	keys int
	rate float64 // denials a second by limits
}

// mostOffenders is how many are shown.
const mostOffenders = 3

// offendersOf finds, for each attribute and its networks, what is denied most, the worst first. What is one key alone
// is a row already, and a block denies as it should.
func offendersOf(rows []*row) []offender {
	all := map[source.Grouping]map[string]*offender{}
	add := func(by source.Grouping, name string, rate float64) {
		if all[by] == nil {
			all[by] = map[string]*offender{}
		}
		o := all[by][name]
		if o == nil {
			o = &offender{by: by, name: name}
			all[by][name] = o
		}
		o.keys++
		o.rate += rate
	}
	for _, r := range rows {
		if r.deniedRate() == 0 || r.isBlocked() {
			continue
		}
		for i := range r.attributes {
			a := &r.attributes[i]
			add(source.Grouping{Attribute: a.Name}, a.Value, r.denial.Placed)
			if network := source.NetworkOf(a.Value); network != "" {
				add(source.Grouping{Attribute: a.Name, Network: true}, network, r.denial.Placed)
			}
		}
	}
	var worst []offender
	for _, groups := range all {
		var top *offender
		for _, o := range groups {
			if o.keys > 1 && (top == nil || o.before(top) < 0) {
				top = o
			}
		}
		if top != nil {
			worst = append(worst, *top)
		}
	}
	slices.SortFunc(worst, func(a, b offender) int { return a.before(&b) })
	return worst[:min(len(worst), mostOffenders)]
}

func (o *offender) before(other *offender) int {
	return cmp.Or(cmp.Compare(other.rate, o.rate), cmp.Compare(o.by.String(), other.by.String()), cmp.Compare(o.name, other.name))
}

// line says who it is.
func (o *offender) line(total float64) line {
	share := ""
	if total > 0 {
		share = fmt.Sprintf(", %.0f%% of all", min(100, 100*o.rate/total))
	}
	return line{{"  " + o.by.String() + " ", output.Faint}, {output.Printable(o.name), bold},
		{"  " + deniedSign + " " + figures.Short(o.rate) + "/s", denying},
		{" by " + output.Plural(o.keys, "key") + share, output.Plain}}
}
