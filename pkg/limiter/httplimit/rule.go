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
	// Attributes says where in a request the policy's attributes are, and the fields that are costs of limits.
	// A client that can set such a field chooses its own cost: take it only from a field that your proxy sets.
	// A cost that is missing is an error, also where the limit is a shadow.
	Attributes map[string]Source
	// Skip are requests that are not limited.
	Skip Skip
	// DeniedStatus is the status of a denial; zero stands for 429.
	DeniedStatus int
}

// Status is the status of a denial.
func (rule *Rule) Status() int {
	if rule.DeniedStatus == 0 {
		return http.StatusTooManyRequests
	}
	return rule.DeniedStatus
}

// Of returns the attributes of r. Those that r does not have are left out. A policy refuses
// requests without an attribute that one of its limits needs, so that nobody escapes a limit
// by leaving something out.
//
// Costs that Attributes names are among them, until [Rule.Costs] moves them out.
//
// A value of more than 128 bytes is cut, and ends with a hash of all of it.
func (rule *Rule) Of(r *http.Request, clients *Clients) policy.Attributes {
	attributes := make(policy.Attributes, len(rule.Attributes))
	rule.add(attributes, r, clients)
	return attributes
}

// add adds the attributes of r.
func (rule *Rule) add(attributes policy.Attributes, r *http.Request, clients *Clients) {
	for name, source := range rule.Attributes {
		if value := source.value(r, clients); value != "" {
			attributes[name] = bounded(value)
		}
	}
}

// Skip are requests that are neither counted nor denied: those of one of the methods, and
// those to one of the paths.
type Skip struct {
	// Methods are as requests have them, such as OPTIONS. A request that asks for another method by
	// a field such as X-HTTP-Method-Override is not skipped by its own.
	Methods []string
	// Paths are exact, or end with "*" for all that begin so. They match a path only in its
	// plain form: /static/* matches /static/a.css, and not /static/../login or /static//a.css,
	// which somebody behind could read as something else.
	Paths []string
}

// Skips reports whether r is not limited.
func (rule *Rule) Skips(r *http.Request) bool {
	return slices.Contains(rule.Skip.Methods, r.Method) && !overridesMethod(r) || len(rule.Skip.Paths) > 0 && rule.Skip.hasPath(r.URL.Path)
}

// overridesMethod reports whether a service could take the method of r from a field.
func overridesMethod(r *http.Request) bool {
	for _, field := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if len(r.Header[field]) > 0 {
			return true
		}
	}
	return false
}

func (s *Skip) hasPath(asked string) bool {
	// In an escape that was escaped, behind a semicolon or with backslashes, servers find other
	// paths than we do.
	if asked == "" || strings.ContainsAny(asked, `%;\`) || strings.TrimSuffix(asked, "/") != strings.TrimSuffix(path.Clean(asked), "/") {
		return false
	}
	for _, pattern := range s.Paths {
		begin, isPrefix := strings.CutSuffix(pattern, "*")
		if asked == pattern || isPrefix && strings.HasPrefix(asked, begin) {
			return true
		}
	}
	return false
}

// Missing says, in the words of a client, what a request lacks that a limit of p needs. It
// returns nil if nothing lacks, else a [limiter.ErrInvalid]. attributes are those of the request.
func (rule *Rule) Missing(p *policy.Policy, attributes policy.Attributes) error {
	return rule.missing(p.Needed(), attributes)
}

func (rule *Rule) missing(needed []string, attributes policy.Attributes) error {
	var missing []string
	for _, name := range needed {
		if attributes[name] != "" {
			continue
		}
		if source, has := rule.Attributes[name]; has {
			name = source.String()
		}
		missing = append(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	return store.Invalidf("the request must have exactly one value for %s", strings.Join(missing, " and for "))
}
