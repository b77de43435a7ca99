package source

import (
	"net/netip"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// GroupTotals count the keys of groups in one pass through all keys, also of those that are
// not followed. What strangers chose, such as addresses, can be any number of groups, so only
// some of a grouping are counted. Those that are, are counted from their first key on.
type GroupTotals struct {
	By map[Grouping]map[string]*GroupTotal
	// More: there are groups of a grouping that are not counted.
	More map[Grouping]bool
}

// GroupTotal is how many keys a group has.
type GroupTotal struct{ Keys, AtLimit int64 }

const (
	// mostGroups is how many groups of one grouping are counted: about 1 MB of them.
	mostGroups = 10_000
	// MostGroupings is how many attributes keys are grouped by.
	MostGroupings = 20
)

// NewGroupTotals returns totals of no keys.
func NewGroupTotals() *GroupTotals {
	return &GroupTotals{By: map[Grouping]map[string]*GroupTotal{}, More: map[Grouping]bool{}}
}

// Add counts a key in all of its groups.
func (t *GroupTotals) Add(r *Reading) {
	atLimit := r.AtLimit()
	name, attributes := r.Key.Name, []policy.Attribute(nil)
	if parts, is := policy.ParseKey(r.Key); is && r.Layout == "" {
		name, attributes = parts.LimitName(), parts.Attributes
	} else {
		attributes = AttributesOf(&r.Entry)
	}
	t.count(Grouping{}, name, atLimit)
	for i := range attributes {
		t.count(Grouping{Attribute: attributes[i].Name}, attributes[i].Value, atLimit)
	}
}

func (t *GroupTotals) count(by Grouping, name string, atLimit bool) {
	groups := t.By[by]
	if groups == nil {
		if len(t.By) > MostGroupings {
			t.More[by] = true
			return
		}
		groups = map[string]*GroupTotal{}
		t.By[by] = groups
	}
	total := groups[name]
	if total == nil {
		if len(groups) >= mostGroups {
			t.More[by] = true
			return
		}
		total = &GroupTotal{}
		groups[strings.Clone(name)] = total // not the whole key that it is a part of
	}
	total.Keys++
	if atLimit {
		total.AtLimit++
	}
}

// Grouping is a way to make groups: by limit, which is the zero grouping, by an attribute, or by the networks of its
// addresses. Networks are not among the totals.
type Grouping struct {
	Attribute string
	Network   bool
}

// String is what groups are made by.
func (g Grouping) String() string {
	switch {
	case g.Attribute == "":
		return "limit"
	case g.Network:
		return g.Attribute + " network"
	}
	return g.Attribute
}

// NetworkOf returns the network of an address, "" for what is none: of IPv4 24 bits are what one sender often has, of
// IPv6 64.
func NetworkOf(value string) string {
	if value == "" || !strings.ContainsAny(value, ".:") {
		return ""
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return ""
	}
	bits := 24
	if address = address.Unmap().WithZone(""); address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked().String()
}

// layoutAttribute is what the layout of another limiter is called among attributes.
const layoutAttribute = "layout"

// AttributesOf returns the attributes that a key was made of: by a policy, or by somebody who
// writes subjects like tenant:acme:user:42. For a key of another limiter the first one is its
// layout.
func AttributesOf(e *admin.Entry) (attributes []policy.Attribute) {
	if e.Layout != "" {
		attributes = append(attributes, policy.Attribute{Name: layoutAttribute, Value: e.Layout})
	} else if parts, is := policy.ParseKey(e.Key); is {
		return parts.Attributes
	}
	ofSubject, _ := policy.ParseSubject(e.Key.Subject)
	return append(attributes, ofSubject...)
}
