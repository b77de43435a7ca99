package dash

import "github.com/limitctl/limitctl/pkg/limiter/policy"

// groupTotals count the keys of groups in one pass through all keys, also of those that are
// not followed. What strangers chose, such as addresses, can be any number of groups, so only
// some of a grouping are counted. Those that are, are counted from their first key on.
type groupTotals struct {
	by map[grouping]map[string]groupTotal
	// more: there are groups of a grouping that are not counted.
	more map[grouping]bool
}

// groupTotal is how many keys a group has.
type groupTotal struct{ keys, atLimit int64 }

const (
	// mostGroups is how many groups of one grouping are counted: about 1 MB of them.
	mostGroups = 10_000
	// mostGroupings is how many attributes keys are grouped by.
	mostGroupings = 20
)

func newGroupTotals() *groupTotals {
	return &groupTotals{by: map[grouping]map[string]groupTotal{}, more: map[grouping]bool{}}
}

// add counts a key in all of its groups.
func (t *groupTotals) add(r *Reading) {
	atLimit := r.atLimit()
	name := policy.LimitName(r.Key)
	if r.Layout != "" {
		name = r.Key.Name
	}
	t.count(grouping{}, name, atLimit)
	attributes := attributesOf(&r.Entry)
	for i := range attributes {
		t.count(grouping{attributes[i].Name}, attributes[i].Value, atLimit)
	}
}

func (t *groupTotals) count(by grouping, name string, atLimit bool) {
	groups := t.by[by]
	if groups == nil {
		if len(t.by) > mostGroupings {
			t.more[by] = true
			return
		}
		groups = map[string]groupTotal{}
		t.by[by] = groups
	}
	total, known := groups[name]
	if !known && len(groups) >= mostGroups {
		t.more[by] = true
		return
	}
	total.keys++
	if atLimit {
		total.atLimit++
	}
	groups[name] = total
}

// grouping is a way to make groups: by limit, which is the zero grouping, or by an
// attribute.
type grouping struct{ attribute string }

// title is what groups are made by.
func (g *grouping) title() string {
	if g.attribute == "" {
		return "limit"
	}
	return g.attribute
}

// of returns the name of the row's group, "" if it is in none.
func (g *grouping) of(r *row) string {
	if g.attribute == "" {
		return r.limitName()
	}
	for i := range r.attributes {
		if r.attributes[i].Name == g.attribute {
			return r.attributes[i].Value
		}
	}
	return ""
}
