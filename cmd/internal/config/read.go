package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/storeurl"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Parse reads a configuration file; path names it in messages. checkStore, if not
// nil, tells what is wrong with the URL of a context's store, without showing its
// password. An error is a [*Mistakes] with all that is wrong.
func Parse(path string, data []byte, checkStore func(url string) error) (*Config, error) {
	c, t := read(path, data, checkStore)
	return c, t.err()
}

func (t *tree) err() error {
	if len(t.mistakes) == 0 {
		return nil
	}
	return &Mistakes{t.sorted()}
}

// read reads all it can; what it says of a file with mistakes is not to be used.
func read(path string, data []byte, checkStore func(url string) error) (*Config, *tree) {
	c := &Config{PolicyFile: path, Read: []string{path}, Searched: []string{path}, origins: map[string]Origin{}}
	t, root, ok := parse(path, data, checkStore)
	if !ok {
		return c, t
	}
	fields, ok := t.fields(root, "the file", fileObject())
	if !ok {
		return c, t
	}
	c.Prefix = t.prefix(fields)
	if e, said := fields["policies"]; said {
		for _, each := range t.named(e, "policy", "policies") {
			c.Policies = append(c.Policies, t.policy(each))
		}
	}
	if e, said := fields["contexts"]; said {
		for _, each := range t.named(e, "context", "contexts") {
			c.Contexts = append(c.Contexts, t.context(each))
		}
	}
	for at, place := range t.places {
		c.origins[at] = Origin{path, place.Position.Line}
	}
	return c, t
}

// named returns the entries of a map by names of one's own.
func (t *tree) named(p place, one, many string) []place {
	entries, _ := t.mapping(p, many, fmt.Sprintf("a map from each %s's name to what it holds", one))
	return slices.DeleteFunc(entries, func(e place) bool {
		err := policy.ValidateName(one, e.name)
		if err != nil {
			t.mistake(join(p.path, "?"), e.key, "%s", strings.Replace(err.Error(), strconv.Quote(e.name), t.quote(e.name, e.key), 1))
		}
		t.places[e.path] = e.key // it begins with its name
		return err != nil
	})
}

func (t *tree) prefix(fields map[string]place) string {
	e, said := fields["prefix"]
	if !said {
		return ""
	}
	prefix, ok := t.text(e, "prefix", "what keys begin with, such as rl")
	if !ok {
		return ""
	}
	if err := limiter.ValidatePrefix(prefix); err != nil {
		t.mistake(e.path, t.point(e), "%s", err)
	}
	return prefix
}

func (t *tree) policy(p place) *policy.Policy {
	result := &policy.Policy{Name: p.name}
	fields, ok := t.fields(p, "the policy", policyObject())
	if !ok {
		return result
	}
	if e, said := fields["on_error"]; said {
		if text, ok := t.text(e, "on_error", "allow, deny or fail"); ok {
			var err error
			if result.OnError, err = limiter.ParseFailurePolicy(text); err != nil {
				t.mistake(e.path, t.point(e), "on_error is %q; it must be allow, deny or fail", text)
			}
		}
	}
	if e, said := fields["hash_by"]; said {
		result.HashBy = t.attributeNames(e)
	}
	if e, said := fields["limits"]; said {
		values, _ := t.list(e, "limits", "a list of limits, each beginning with a dash")
		for _, value := range values {
			result.Limits = append(result.Limits, t.limit(value))
		}
	}
	for _, problem := range result.Problems() {
		path := p.path
		if problem.Path != "" {
			path += "." + problem.Path
			if t.has(path) || strings.HasSuffix(path, ".by") && t.has(p.path+".hash_by") {
				continue // it is only what a mistake left over
			}
			t.mistake(path, t.token(path), "%s", problem.Text)
			continue
		}
		t.mistake(path, p.key, "%s", problem.Text)
	}
	return result
}

func (t *tree) limit(p place) policy.Limit {
	result := policy.Limit{Limit: placeholder()}
	fields, ok := t.fields(p, "the limit", limitObject())
	if !ok {
		return result
	}
	if e, said := fields["name"]; said {
		result.Name, _ = t.text(e, "name", "letters, digits, - and _, such as ip-minute")
	}
	if e, said := fields["by"]; said {
		result.By = t.attributeNames(e)
	}
	_, amountSaid := fields["limit"]
	base, ok := t.amount(fields, limiter.Limit{}, amountSaid)
	if ok {
		result.Limit, _ = base.Normalize()
	}
	if e, said := fields["shadow"]; said {
		result.Shadow = t.boolean(e)
	}
	if e, said := fields["overrides"]; said {
		values, _ := t.list(e, "overrides", "a list of overrides, each beginning with a dash")
		for _, value := range values {
			result.Overrides = append(result.Overrides, t.override(value, base, ok))
		}
	}
	return result
}

// placeholder stands for a limit that has a mistake, so that nothing else is said
// of it.
func placeholder() limiter.Limit { return limiter.Limit{Count: 1, Period: time.Second} }

func (t *tree) override(p place, base limiter.Limit, baseKnown bool) policy.Override {
	result := policy.Override{Limit: placeholder()}
	fields, ok := t.fields(p, "the override", overrideObject())
	if !ok {
		return result
	}
	if e, said := fields["when"]; said {
		result.When = t.attributes(e)
	}
	if amount, ok := t.amount(fields, base, baseKnown); ok {
		result.Limit, _ = amount.Normalize()
	}
	if fields["limit"].key == nil && fields["algorithm"].key == nil && fields["burst"].key == nil && len(fields) > 0 {
		t.mistake(p.path+".limit", t.point(p), "the override changes nothing; give it a limit, a burst or an algorithm")
	}
	return result
}

// amount reads how much is allowed: the fields limit, algorithm and burst, over
// what is known from a base. What is left out stays as it is there; known says
// that it is sound. ok says the same of the answer.
func (t *tree) amount(fields map[string]place, base limiter.Limit, known bool) (amount limiter.Limit, ok bool) {
	amount, ok = base, known
	var inText limiter.Limit
	if e, said := fields["limit"]; said {
		text, isText := t.text(e, "limit", "COUNT/PERIOD, such as 10/1m")
		if isText {
			var err error
			if inText, err = limiter.ParseLimit(text); err != nil {
				t.mistake(e.path, t.point(e), "%s", err)
				isText = false
			}
		}
		ok = ok && isText
		amount.Count, amount.Period = inText.Count, inText.Period
	}
	if e, said := fields["algorithm"]; said {
		switch algorithm, read := t.algorithm(e); {
		case !read:
			ok = false
		case inText.Algorithm != 0:
			t.mistake(e.path, t.point(e), "the algorithm is said twice, as %s in the limit and here; keep one", inText.Algorithm)
			ok = false
		default:
			inText.Algorithm = algorithm
		}
	}
	if e, said := fields["burst"]; said {
		switch burst, read := t.count(e); {
		case !read:
			ok = false
		case inText.Burst != 0:
			t.mistake(e.path, t.point(e), "the burst is said twice, as %d in the limit and here; keep one", inText.Burst)
			ok = false
		default:
			inText.Burst = burst
		}
	}
	if inText.Algorithm != 0 {
		amount.Algorithm = inText.Algorithm
	}
	if inText.Burst != 0 {
		amount.Burst = inText.Burst
	} else if !amount.Algorithm.HasBurst() {
		amount.Burst = 0 // the base's burst is that of another algorithm
	}
	if inText.Slices != 0 {
		amount.Slices = inText.Slices
	} else if !amount.Algorithm.HasSlices() {
		amount.Slices = 0
	}
	if !ok {
		return amount, false
	}
	if _, err := amount.Normalize(); err != nil {
		e := fields["limit"]
		for _, name := range []string{"algorithm", "burst"} {
			if better, said := fields[name]; said {
				e = better
			}
		}
		t.mistake(e.path, t.point(e), "%s", err)
		return amount, false
	}
	return amount, true
}

func (t *tree) algorithm(p place) (limiter.Algorithm, bool) {
	text, ok := t.text(p, "algorithm", "the name of one, such as sliding-log")
	if !ok {
		return 0, false
	}
	algorithm, err := limiter.ParseAlgorithm(text)
	if err != nil {
		t.mistake(p.path, t.point(p), "%s", err)
	}
	return algorithm, err == nil
}

// count reads a whole number, written as people write them: 0200 is not 128.
func (t *tree) count(p place) (int64, bool) {
	text, ok := t.text(p, p.name, "a whole number")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (n < 1 || n > limiter.MaxCount):
		t.mistake(p.path, t.point(p), "%s %s is out of range; it must be from 1 to %d", p.name, text, limiter.MaxCount)
	case err != nil || strconv.FormatInt(n, 10) != text:
		t.mistake(p.path, t.point(p), "%s is %q; it must be a whole number, such as 200", p.name, text)
	default:
		return n, true
	}
	return 0, false
}

// attributeNames reads a list of attributes' names. Those that are unfit are left
// out of it.
func (t *tree) attributeNames(p place) []string {
	values, _ := t.list(p, p.name, "a list of attributes' names, such as [ip]")
	var names []string
	for _, value := range values {
		name, ok := t.text(value, "an attribute's name", "a text, such as ip")
		if !ok {
			t.bad[p.path] = true
			continue
		}
		err := policy.ValidateName("attribute", name)
		switch {
		case err != nil:
			t.mistake(p.path, t.point(value), "%s", err)
		case slices.Contains(names, name):
			t.mistake(p.path, t.point(value), "attribute %q is named twice; name it once", name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// attributes reads the attributes of a when, whose values are texts however they
// are written.
func (t *tree) attributes(p place) policy.Attributes {
	entries, _ := t.mapping(p, "when", "a map from attributes' names to values, such as {tenant: acme}")
	attributes := policy.Attributes{}
	for _, e := range entries {
		if err := policy.ValidateName("attribute", e.name); err != nil {
			t.mistake(p.path, e.key, "%s", err)
		} else if text, ok := t.text(e, fmt.Sprintf("attribute %q", e.name), "a value, such as acme"); ok {
			attributes[e.name] = text
		} else {
			t.bad[p.path] = true
		}
	}
	return attributes
}

func (t *tree) context(p place) *Context {
	result := &Context{Name: p.name}
	fields, ok := t.fields(p, "the context", contextObject())
	if !ok {
		return result
	}
	if e, said := fields["store"]; said {
		if result.Store, ok = t.text(e, "store", "a URL, such as redis://localhost:6379"); ok && t.checkStore != nil {
			t.secrets.Add(storeurl.Secrets(result.Store)...)
			if err := t.checkStore(result.Store); err != nil {
				t.mistake(e.path, t.point(e), "%s", err)
			}
		}
	}
	result.Prefix = t.prefix(fields)
	if e, said := fields["password_file"]; said {
		result.PasswordFile, _ = t.text(e, "password_file", "a path")
	}
	if e, said := fields["password_env"]; said {
		result.PasswordEnv, _ = t.text(e, "password_env", "the name of an environment variable")
		if fields["password_file"].key != nil {
			t.mistake(e.path, e.key, "the context has both a password_file and a password_env; keep one")
		}
	}
	if e, said := fields["read_only"]; said {
		result.ReadOnly = t.boolean(e)
	}
	if e, said := fields["protected"]; said {
		result.Protected = t.boolean(e)
	}
	return result
}
