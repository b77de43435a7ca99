package keys

import (
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// migrateTarget is the flags that name the new limits.
type migrateTarget struct {
	limits  []string
	policy  string
	subject string
	newName string
}

// text is the target in the words of a command line.
func (t *migrateTarget) text(attributes []string) string {
	var words []string
	for _, limit := range t.limits {
		words = append(words, "--to", limit)
	}
	if t.policy != "" {
		words = append(append(words, "--to-policy", t.policy), attributes...)
	} else if t.subject != "{subject}" {
		words = append(words, "--subject", t.subject)
	}
	if t.newName != "" {
		words = append(words, "--name", t.newName)
	}
	return " " + shell.Command(words...)
}

// requests returns a function that makes the requests for an old limit.
func (t *migrateTarget) requests(g *cli.Globals, arguments []string) (func(*admin.Entry) ([]store.Request, error), error) {
	if t.policy != "" {
		return t.policyRequests(g, arguments)
	}
	limits := make([]store.Limit, len(t.limits))
	for i, text := range t.limits {
		var err error
		if limits[i], err = store.ParseLimit(text); err == nil {
			err = limits[i].CheckStored()
		}
		if err != nil {
			return nil, cli.Usagef("--to: %s", err)
		}
	}
	subject, err := parseTemplate("--subject", t.subject)
	if err != nil {
		return nil, err
	}
	name, err := parseTemplate("--name", t.newName)
	if err != nil {
		return nil, err
	}
	return func(e *admin.Entry) ([]store.Request, error) {
		reqs := make([]store.Request, len(limits))
		for i := range limits {
			key := store.Key{Subject: subject.of(e), Name: name.of(e)}
			reqs[i] = store.Request{Key: key, Limit: limits[i], Cost: 1}
		}
		return reqs, nil
	}, nil
}

// policyRequests returns a function that makes the requests for an old limit under a policy, whose attributes are
// templates.
func (t *migrateTarget) policyRequests(g *cli.Globals, arguments []string) (func(*admin.Entry) ([]store.Request, error), error) {
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	p, err := c.Policy(t.policy)
	if err != nil {
		return nil, err
	}
	given, err := policy.ParseAttributes(arguments)
	if err != nil {
		return nil, err
	}
	templates := map[string]template{}
	for name, text := range given {
		if templates[name], err = parseTemplate("attribute "+name, text); err != nil {
			return nil, err
		}
	}
	// An attribute is missing for all old limits or for none, so this error comes before anything is read.
	if _, err := p.Requests(given, 1, p.AllCosts(1)...); err != nil {
		return nil, err
	}
	return func(e *admin.Entry) ([]store.Request, error) {
		attributes := policy.Attributes{}
		for name, text := range templates {
			attributes[name] = text.of(e)
		}
		return p.Requests(attributes, 1, p.AllCosts(1)...)
	}, nil
}

// template is a text in which {subject} and {name} stand for those of an old limit.
type template string

// parseTemplate checks a template, which what names.
func parseTemplate(what, text string) (template, error) {
	rest := strings.NewReplacer("{subject}", "", "{name}", "").Replace(text)
	if at := strings.IndexAny(rest, "{}"); at >= 0 {
		return "", cli.Usagef("%s %q has a brace that is not of {subject} or {name}; only these two can be used", what, text)
	}
	return template(text), nil
}

// of is the text for an old limit.
func (t template) of(e *admin.Entry) string {
	return strings.NewReplacer("{subject}", e.Key.Subject, "{name}", e.Key.Name).Replace(string(t))
}
