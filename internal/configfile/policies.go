// Package configfile is the format of limitctl.yaml: its fields, which of its text may be shown, and the meaning of
// its policies. The parts for operators alone, contexts and layouts, are read by their users.
package configfile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// MaxSize is the largest size of a file in bytes.
const MaxSize = yamlfile.MaxSize

// File is the content of a file, without the parts for operators alone.
type File struct {
	// Prefix is the text that the store's keys begin with; empty if the file has none.
	Prefix string
	// NoDenials: the file says that nobody counts denials.
	NoDenials bool
	// LocalShare is for policies without their own, and for limits without a policy.
	LocalShare store.Share
	// Breaker has its defaults filled in; nil means no breaker.
	Breaker *store.Breaker
	// Policies are in the order of the file. Each has its LocalShare.
	Policies []*policy.Policy
	// HTTP has its defaults filled in, and a rule for each policy that has one.
	HTTP httplimit.Settings
	// Envoy uses only policies of the file.
	Envoy EnvoyDomains
	// EnvoyOptions are for all domains.
	EnvoyOptions EnvoyOptions
}

// Operators read the parts of a file for operators alone, if it has them. A nil function ignores its part.
type Operators struct {
	Contexts, Layouts func(r *yamlfile.Reader, v yamlfile.Value)
}

// Read reads a file; path is its name in mistakes. Do not use the File if there are mistakes.
func Read(path string, data []byte, operators Operators) (File, *yamlfile.Reader) {
	r, root, ok := yamlfile.Parse(path, data, "policies, contexts or a prefix")
	if !ok {
		return File{}, r
	}
	fields, ok := r.Fields(root, "the file", Fields(""))
	if !ok {
		return File{}, r
	}
	file := File{Prefix: Prefix(r, fields), LocalShare: readShare(r, fields, store.DefaultShare),
		Breaker: readBreaker(r, fields),
		HTTP:    readHTTP(r, fields)}
	if v, given := fields["denials"]; given {
		file.NoDenials = !r.Bool(v)
	}
	for _, each := range Named(r, fields["policies"], "policy", "policies") {
		p, rule := readPolicy(r, each, file.LocalShare)
		file.Policies = append(file.Policies, p)
		if rule != nil {
			file.HTTP.Rules[p.Name] = *rule
			nameClients(&file.HTTP, p)
		}
	}
	file.Envoy, file.EnvoyOptions = readEnvoy(r, fields, file.Policies)
	if v, given := fields["layouts"]; given && operators.Layouts != nil {
		operators.Layouts(r, v)
	}
	if v, given := fields["contexts"]; given && operators.Contexts != nil {
		operators.Contexts(r, v)
	} else if given {
		r.HideURLs()
	}
	return file, r
}

// nameClients makes an address in a "when" the client that requests have.
func nameClients(http *httplimit.Settings, p *policy.Policy) {
	for i := range p.Limits {
		for _, exception := range p.Limits[i].Exceptions {
			for name, value := range exception.When {
				exception.When[name] = http.Client(p.Name, name, value)
			}
		}
	}
}

// FindPolicy returns the policy of that name. An error is a [store.ErrInvalid] that lists the policies of the file.
func FindPolicy(path string, policies []*policy.Policy, name string) (*policy.Policy, error) {
	if p := NamedPolicy(policies, name); p != nil {
		return p, nil
	}
	if len(policies) == 0 {
		return nil, store.Invalidf("policy %q is unknown; %s has no policies", name, path)
	}
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.Name
	}
	return nil, store.Invalidf("policy %q is unknown%s; %s has %s", name, Suggestion(name, names), path,
		strings.Join(names, ", "))
}

// NamedPolicy returns the policy of that name, or nil.
func NamedPolicy(policies []*policy.Policy, name string) *policy.Policy {
	for _, p := range policies {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Suggestion returns "; did you mean …?" with the nearest of names, or "" if none is near.
func Suggestion(name string, names []string) string {
	if near := yamlfile.Nearest(name, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// Named returns the entries of a map whose names the author chose; one and many are the words for an entry, such as
// "policy" and "policies".
func Named(r *yamlfile.Reader, v yamlfile.Value, one, many string) []yamlfile.Value {
	want := fmt.Sprintf("a map from each %s's name to what it holds", one)
	return r.Named(v, many, want, func(name string) error { return policy.ValidateName(one, name) })
}

// Prefix reads the field prefix of a file or of a context.
func Prefix(r *yamlfile.Reader, fields map[string]yamlfile.Value) string {
	prefix, _ := yamlfile.Parsed(r, fields["prefix"], "prefix", "what keys begin with, such as rl",
		func(text string) (string, error) {
			return text, store.ValidatePrefix(text)
		})
	return prefix
}

// readPolicy reads a policy, and its rule for HTTP requests, if it has one.
func readPolicy(r *yamlfile.Reader, v yamlfile.Value, share store.Share) (result *policy.Policy, rule *httplimit.Rule) {
	result = &policy.Policy{Name: v.Name, LocalShare: share}
	fields, ok := r.Fields(v, "the policy", Fields("policy"))
	if !ok {
		return result, nil
	}
	if text, ok := r.Text(fields["on_error"], "on_error", "allow, deny, fail or local"); ok {
		var err error
		if result.OnError, err = store.ParseFailurePolicy(text); err != nil {
			r.Mistake(fields["on_error"], "on_error is %q; it must be allow, deny, fail or local", text)
		}
	}
	result.LocalShare = readShare(r, fields, share)
	result.HashBy = attributeNames(r, fields["hash_by"])
	readDuration(r, fields["wait"], policy.MaxWait, &result.Wait)
	limits, _ := r.List(fields["limits"], "limits", "a list of limits, each beginning with a dash")
	for _, value := range limits {
		result.Limits = append(result.Limits, readLimit(r, value))
	}
	for _, problem := range result.Problems() {
		switch {
		case problem.Path == "":
			r.MistakeAtKey(v, "%s", problem.Text)
		case strings.HasSuffix(problem.Path, ".by") && r.HasMistake(v.Path+".hash_by"): // it is a consequence of that
		default:
			r.MistakeAt(v.Path+"."+problem.Path, "%s", problem.Text)
		}
	}
	if e, given := fields["http"]; given {
		read := readRule(r, e, result, v.Path)
		rule = &read
	}
	return result, rule
}

func readLimit(r *yamlfile.Reader, v yamlfile.Value) policy.Limit {
	result := policy.Limit{Limit: placeholder()}
	fields, ok := r.Fields(v, "the limit", Fields("limit"))
	if !ok {
		return result
	}
	result.Name, _ = r.Text(fields["name"], "name", "letters, digits, - and _, such as ip-minute")
	result.By = attributeNames(r, fields["by"])
	_, amountGiven := fields["limit"]
	base, ok := readAmount(r, fields, store.Limit{}, amountGiven)
	if ok {
		base, _ := base.Normalize()
		result.Limit = limiter.LimitOf(result.Name, base)
	}
	result.Cost, _ = yamlfile.Parsed(
		r, fields["cost"], "cost", "a number of units, such as 1, or the name of a field, such as tokens",
		policy.ParseCost)
	result.Classes = readClasses(r, fields["classes"])
	result.Shadow = r.Bool(fields["shadow"])
	overrides, _ := r.List(fields["overrides"], "overrides", "a list of overrides, each beginning with a dash")
	for _, value := range overrides {
		result.Exceptions = append(result.Exceptions, readOverride(r, value, base, ok))
	}
	return result
}

// readClasses reads the classes of a limit: the attribute is the entry by, and all others are classes.
func readClasses(r *yamlfile.Reader, v yamlfile.Value) (classes policy.Classes) {
	entries, ok := r.Map(v, "classes", "a map, such as {by: plan, paid: 0, free: 30%}")
	if !ok {
		return classes
	}
	for _, e := range entries {
		if e.Name == "by" {
			if classes.By, ok = r.Text(e, "by", "the name of an attribute, such as plan"); !ok {
				return policy.Classes{}
			}
			continue
		}
		leave, ok := yamlfile.Parsed(r, e, fmt.Sprintf("class %q", e.Name),
			"the share that it leaves to others, such as 30%",
			policy.ParseLeave)
		if !ok {
			return policy.Classes{}
		}
		classes.Of = append(classes.Of, policy.Class{Name: e.Name, Leave: leave})
	}
	if classes.IsZero() {
		r.Mistake(v, "there are no classes; give the attribute and what each class leaves, such as {by: plan, paid: "+
			"0, free: 30%%}")
	}
	return classes
}

// placeholder replaces a limit with a mistake, so that it causes no other ones.
func placeholder() limiter.Limit { return limiter.Per("", 1, time.Second) }

func readOverride(r *yamlfile.Reader, v yamlfile.Value, base store.Limit, baseKnown bool) policy.Exception {
	result := policy.Exception{Limit: placeholder()}
	fields, ok := r.Fields(v, "the override", Fields("override"))
	if !ok {
		return result
	}
	result.When = attributes(r, fields["when"])
	if amount, ok := readAmount(r, fields, base, baseKnown); ok {
		amount, _ := amount.Normalize()
		result.Limit = limiter.LimitOf("", amount)
	}
	changes := slices.ContainsFunc(amountFields(), func(name string) bool {
		_, given := fields[name]
		return given || r.HasMistake(v.Path+"."+name)
	})
	if !changes && len(fields) > 0 {
		r.Mistake(v, "the override changes nothing; give it a limit, an algorithm, a burst or slices")
	}
	return result
}

// attributeNames reads a list of attribute names. It leaves out invalid ones.
func attributeNames(r *yamlfile.Reader, v yamlfile.Value) []string {
	values, _ := r.List(v, v.Name, "a list of attributes' names, such as [ip]")
	var names []string
	for _, value := range values {
		name, ok := r.Text(value, "an attribute's name", "a text, such as ip")
		if !ok {
			r.Spoil(v)
			continue
		}
		err := policy.ValidateName("attribute", name)
		if err == nil && slices.Contains(names, name) {
			err = store.Invalidf("attribute %q is named twice; name it once", name)
		}
		if err != nil {
			r.Mistake(value, "%s", err)
			r.Spoil(v)
			continue
		}
		names = append(names, name)
	}
	return names
}

// attributes reads the attributes of a when. The values are always texts, however they are written.
func attributes(r *yamlfile.Reader, v yamlfile.Value) policy.Attributes {
	entries, _ := r.Map(v, "when", "a map from attributes' names to values, such as {tenant: acme}")
	attributes := policy.Attributes{}
	for _, e := range entries {
		if err := policy.ValidateName("attribute", e.Name); err != nil {
			r.MistakeAtKey(e, "%s", err)
			r.Spoil(v)
		} else if text, ok := r.Text(e, fmt.Sprintf("attribute %q", e.Name), "a value, such as acme"); ok {
			attributes[e.Name] = text
		} else {
			r.Spoil(v)
		}
	}
	return attributes
}
