package envoy

import (
	"strings"
	"sync"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// index finds what decides a descriptor by the settings that it was made of.
type index struct {
	settings *engine.Settings
	domains  map[string]*domain
	policies map[string]*policy.Policy
	unknown  sync.Once // done when a request has named a domain that is not there
}

// domain is the descriptors of a domain.
type domain struct {
	root node
	// unordered are those whose entries can be in any order; the first that matches decides.
	unordered []*configfile.EnvoyDescriptor
}

// node is where the ordered descriptors with certain first entries are.
type node struct {
	rule     *configfile.EnvoyDescriptor // that ends here; nil for none
	entries  map[entry]*node
	patterns []pattern
}

// entry is an entry with a fixed value, or with any.
type entry struct {
	key, value string
	fixed      bool
}

// pattern is an entry whose value has at least one *.
type pattern struct {
	key, text string
	parts     []string // what is between the *
	next      *node
}

func newIndex(settings *engine.Settings) *index {
	in := &index{settings: settings, domains: map[string]*domain{}, policies: map[string]*policy.Policy{}}
	for _, p := range settings.Policies {
		in.policies[p.Name] = p
	}
	for name, descriptors := range settings.Envoy {
		d := &domain{}
		in.domains[name] = d
		for i := range descriptors {
			rule := &descriptors[i]
			if !rule.Ordered {
				d.unordered = append(d.unordered, rule)
				continue
			}
			at := &d.root
			for _, entry := range rule.Entries {
				at = at.child(&entry)
			}
			if at.rule == nil {
				at.rule = rule
			}
		}
	}
	return in
}

// child returns the node for the next entry, which it makes if there is none.
func (n *node) child(e *configfile.EnvoyEntry) *node {
	if e.IsPattern() {
		for _, p := range n.patterns {
			if p.key == e.Key && p.text == e.Value {
				return p.next
			}
		}
		n.patterns = append(n.patterns, pattern{e.Key, e.Value, strings.Split(e.Value, "*"), &node{}})
		return n.patterns[len(n.patterns)-1].next
	}
	at := entry{key: e.Key, fixed: e.Fixed}
	if e.Fixed {
		at.value = e.Value
	}
	if n.entries[at] == nil {
		if n.entries == nil {
			n.entries = map[entry]*node{}
		}
		n.entries[at] = &node{}
	}
	return n.entries[at]
}

// next returns the node for an entry of a request, or nil. A value that is named goes before a pattern, the first
// pattern before others, and any pattern before any value. There is no way back: if a descriptor does not end below
// that node, it has no limit.
func (n *node) next(e *rls.Entry) *node {
	if found := n.entries[entry{e.Key, e.Value, true}]; found != nil {
		return found
	}
	for i := range n.patterns {
		if p := &n.patterns[i]; p.key == e.Key && p.matches(e.Value) {
			return p.next
		}
	}
	return n.entries[entry{key: e.Key}]
}

// matches reports whether value is the parts in their order, with any text between them.
func (p *pattern) matches(value string) bool {
	last := len(p.parts) - 1
	value, found := strings.CutPrefix(value, p.parts[0])
	if !found {
		return false
	}
	if value, found = strings.CutSuffix(value, p.parts[last]); !found {
		return false
	}
	for _, part := range p.parts[1:last] {
		if _, value, found = strings.Cut(value, part); !found {
			return false
		}
	}
	return true
}

// find returns what decides d, and its attributes; nil means that nothing limits it.
func (d *domain) find(r *rls.Descriptor) (*configfile.EnvoyDescriptor, policy.Attributes) {
	at := &d.root
	for i := range r.Entries {
		if at = at.next(&r.Entries[i]); at == nil {
			break
		}
	}
	if at != nil && at.rule != nil {
		return at.rule, attributesOf(at.rule, func(i int) string { return r.Entries[i].Value })
	}
	for _, known := range d.unordered {
		if attributes, matches := match(r, known); matches {
			return known, attributes
		}
	}
	return nil, nil
}

// match returns the attributes of r, if it has exactly the entries of known, in any order.
func match(r *rls.Descriptor, known *configfile.EnvoyDescriptor) (policy.Attributes, bool) {
	if len(r.Entries) != len(known.Entries) {
		return nil, false
	}
	values := make([]string, len(known.Entries))
	for i := range known.Entries {
		wanted := &known.Entries[i]
		found := false
		for j := range r.Entries {
			if e := &r.Entries[j]; e.Key == wanted.Key && (!wanted.Fixed || e.Value == wanted.Value) {
				values[i], found = e.Value, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return attributesOf(known, func(i int) string { return values[i] }), true
}

// attributesOf returns the attributes of a descriptor with the entries of known, from their values.
func attributesOf(known *configfile.EnvoyDescriptor, value func(i int) string) policy.Attributes {
	attributes := make(policy.Attributes, len(known.Entries))
	for i := range known.Entries {
		if name := known.Entries[i].Attribute; name != "" {
			attributes[name] = known.AttributeOf(value(i))
		}
	}
	return attributes
}
