package policy

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Selection says which keys of policies an operator means.
type Selection struct {
	// Policies and Limits select by name; the zero Pattern is every name.
	Policies, Limits store.Pattern
	// Attributes are those that a key must have. It can have others.
	Attributes Attributes
}

// Match reports whether the key is selected. It needs only the key.
func (s *Selection) Match(key store.Key) bool {
	parts, ok := ParseKey(key)
	if !ok || !matches(s.Policies, parts.Policy) || !matches(s.Limits, parts.Limit) {
		return false
	}
	for name, value := range s.Attributes {
		if !slices.Contains(parts.Attributes, Attribute{name, value}) {
			return false
		}
	}
	return true
}

func matches(p store.Pattern, name string) bool { return p.IsZero() || p.Match(name) }

// Query returns a query that finds the selected keys in a store. Known policies make it faster: it can name keys
// that follow from the attributes, and otherwise scans as few subjects as it can. An attribute that no selected
// limit uses is a [store.ErrInvalid].
func (s *Selection) Query(known []*Policy) (admin.Query, error) {
	everything, err := store.ParsePattern("*")
	if err != nil {
		return admin.Query{}, err
	}
	// what follows hash_by comes after
	names, err := store.ParsePattern(orAny(s.Policies) + "/" + orAny(s.Limits) + "*")
	if err != nil {
		return admin.Query{}, err
	}
	q := admin.Query{Subjects: everything, Names: names, Match: s.Match}
	name, exact := s.Policies.Exact()
	at := slices.IndexFunc(known, func(p *Policy) bool { return p.Name == name })
	if !exact || at < 0 {
		return q, nil
	}
	p := known[at]
	limits, err := s.limitsOf(p)
	if err != nil {
		return admin.Query{}, err
	}
	if keys := s.keys(p, limits); len(keys) > 0 {
		return admin.Query{Keys: keys}, nil
	}
	if glob := s.subjectGlob(p, limits); glob != "" {
		q.Subjects, err = store.ParsePattern(glob)
	}
	return q, err
}

func orAny(p store.Pattern) string {
	if p.IsZero() {
		return "*"
	}
	if name, exact := p.Exact(); exact {
		return store.EscapeGlob(name)
	}
	return p.String()
}

// limitsOf returns the limits of p whose keys can be selected.
func (s *Selection) limitsOf(p *Policy) ([]*Limit, error) {
	var limits []*Limit
	var named []string
	for i := range p.Limits {
		l := &p.Limits[i]
		if !matches(s.Limits, l.Name) {
			continue
		}
		named = append(named, l.Name)
		if !slices.ContainsFunc(s.Attributes.Names(), func(name string) bool { return !slices.Contains(l.By, name) }) {
			limits = append(limits, l)
		}
	}
	switch {
	case len(named) == 0:
		all := make([]string, len(p.Limits))
		for i := range p.Limits {
			all[i] = p.Limits[i].Name
		}
		return nil, store.Invalidf("policy %q has no limit %q; it has %s", p.Name, s.Limits, strings.Join(all, ", "))
	case len(limits) == 0:
		return nil, store.Invalidf("none of the limits %s of policy %q is by %s", list(named), p.Name,
			strings.Join(s.Attributes.Names(), " and "))
	}
	return limits, nil
}

// keys returns the keys of limits, if the attributes determine them.
func (s *Selection) keys(p *Policy, limits []*Limit) []store.Key {
	var keys []store.Key
	for _, l := range limits {
		for _, name := range l.By {
			if _, known := s.Attributes[name]; !known {
				return nil
			}
		}
		keys = append(keys, p.Key(l, s.Attributes))
	}
	return keys
}

// subjectGlob returns a glob that the subjects of all selected keys match, or "".
func (s *Selection) subjectGlob(p *Policy, limits []*Limit) string {
	for _, name := range s.Attributes.Names() {
		value := s.Attributes[name]
		written := store.EscapeGlob(name + ":" + subjecttext.Escape(value))
		first, inAll := true, !subjecttext.IsPlainIPv6(value)
		for _, l := range limits {
			subject := l.By
			if n := len(p.HashBy); n > 0 {
				subject = p.HashBy
			}
			inAll = inAll && slices.Contains(subject, name)
			first = first && subject[0] == name
		}
		switch {
		case inAll && first:
			return written + "*"
		case inAll:
			return "*" + written + "*"
		}
	}
	return ""
}
