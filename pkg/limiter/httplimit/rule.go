package httplimit

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Rule says how one policy limits HTTP requests.
type Rule struct {
	// Attributes are the sources of the policy's attributes, and of the fields that are costs of limits. A client
	// that can set such a field chooses its own cost: use only a field that your proxy sets.
	Attributes map[string]Source
	// Skip selects requests that are not limited.
	Skip Skip
	// DeniedStatus is the status of a denial; 0 means 429.
	DeniedStatus int
}

// Status is the status of a denial.
func (rule *Rule) Status() int {
	if rule.DeniedStatus == 0 {
		return http.StatusTooManyRequests
	}
	return rule.DeniedStatus
}

// Of returns the attributes that r has, and the costs that Attributes names, until [Rule.Costs] moves them out. A value
// of more than 128 bytes is cut, and ends with a hash of the whole value.
func (rule *Rule) Of(r *http.Request, clients *Clients) policy.Attributes {
	attributes := make(policy.Attributes, len(rule.Attributes))
	for name, source := range rule.Attributes {
		if value := source.value(r, clients); value != "" {
			attributes[name] = bounded(value)
		}
	}
	return attributes
}

// Skip selects requests that are neither counted nor denied: those with one of the methods, and those to one of the
// paths.
type Skip struct {
	// Methods are written as in requests, such as OPTIONS. They skip no request with X-HTTP-Method-Override.
	Methods []string
	// Paths are exact, or end with "*" for all with that beginning. They match a path only in its plain form: /static/*
	// does not match /static/../login or /static//a.css, which a server behind could read differently.
	Paths []string
}

// Skips reports whether r is not limited.
func (rule *Rule) Skips(r *http.Request) bool {
	overrides := r.Header["X-Http-Method-Override"] != nil || r.Header["X-Http-Method"] != nil ||
		r.Header["X-Method-Override"] != nil
	return !overrides && slices.Contains(rule.Skip.Methods, r.Method) || len(rule.Skip.Paths) > 0 &&
		rule.Skip.hasPath(r.URL.Path)
}

func (s *Skip) hasPath(asked string) bool {
	// With an escaped escape, a semicolon or a backslash, a server behind could see another path.
	if asked == "" || strings.ContainsAny(asked, `%;\`) || strings.TrimSuffix(asked, "/") != strings.TrimSuffix(
		path.Clean(asked), "/") {
		return false
	}
	return slices.ContainsFunc(s.Paths, func(pattern string) bool {
		begin, isPrefix := strings.CutSuffix(pattern, "*")
		return asked == pattern || isPrefix && strings.HasPrefix(asked, begin)
	})
}

// missing returns a [limiter.ErrInvalid] that names, in the words of a client, what is needed and attributes lack.
func (rule *Rule) missing(needed []string, attributes policy.Attributes) error {
	var missing []string
	for _, name := range needed {
		if attributes[name] == "" {
			if source, has := rule.Attributes[name]; has {
				name = source.String()
			}
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return store.Invalidf("the request must have exactly one value for %s", strings.Join(missing, " and for "))
}

// bytesField is the cost that every request has: the length of its body.
const bytesField = "bytes"

// Sourced returns the names for which a [Rule] needs a source: the attributes that p needs, and the fields that are
// costs, except bytes, which has Content-Length.
func Sourced(p *policy.Policy) []string {
	return append(p.Needed(), slices.DeleteFunc(
		p.CostFields(), func(field string) bool { return field == bytesField })...)
}

// Costs returns what r costs for the limits of p whose cost is a field. It moves such fields out of attributes. Without
// a source, the field bytes is the Content-Length, and at least 1. A missing cost is a [limiter.ErrInvalid].
func (rule *Rule) Costs(p *policy.Policy, r *http.Request, attributes policy.Attributes) (
	costs []policy.FieldCost, err error) {
	var needed []string
	for _, field := range p.CostFields() {
		if field != bytesField || attributes[field] != "" || rule.Attributes[field] != (Source{}) {
			needed = append(needed, field)
			continue
		}
		if r.ContentLength < 0 {
			return nil, store.Invalidf("the request must have a Content-Length, as its bytes are counted")
		}
		costs = append(costs, policy.FieldCost{Field: field, Units: max(1, r.ContentLength)})
	}
	if err := rule.missing(needed, attributes); err != nil {
		return nil, err
	}
	return p.CostsIn(attributes, costs)
}
