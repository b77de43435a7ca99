package api

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fields is a set of the fields of a body, one bit each.
type fields uint16

const (
	fieldKey fields = 1 << iota
	fieldLimits
	fieldPolicy
	fieldAttributes
	fieldCost
	fieldCosts
	fieldToken
	fieldTokenTTL
	fieldUpTo
	fieldForce
)

// fieldNames are the names in the order of their bits.
var fieldNames = []string{"key", "limits", "policy", "attributes", "cost", "costs", "token", "token_ttl", "up_to", "force"}

// names are the names of the fields in a set.
func (f fields) names() (names []string) {
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// verb is an operation of the interface: the last part of the path.
type verb struct {
	name   string
	op     store.Op
	fields fields   // that a body may have
	scopes []string // of which a token needs one
}

// whoAndWhat has the fields that every verb accepts. It is no constant, since constants of this type are single
// fields.
var whoAndWhat = fieldKey | fieldLimits | fieldPolicy | fieldAttributes | fieldCost | fieldCosts

// verbs are all operations.
var verbs = []verb{
	{"check", store.Peek, whoAndWhat | fieldToken | fieldTokenTTL, []string{"decide", "read"}},
	{"consume", store.Take, whoAndWhat | fieldToken | fieldTokenTTL | fieldUpTo | fieldForce, []string{"decide"}},
	{"refund", store.Refund, whoAndWhat | fieldToken, []string{"refund"}},
	{"settle", store.Settle, whoAndWhat | fieldToken, []string{"refund"}},
	{"reset", store.Adjust, whoAndWhat &^ (fieldCost | fieldCosts), []string{"reset"}},
}

// Scopes returns the scopes of which the access token for a path needs one.
func Scopes(path string) []string {
	name, _ := strings.CutPrefix(path, prefix)
	switch v := verbOf(name); {
	case v != nil:
		return v.scopes
	case strings.HasPrefix(path, authPrefix):
		return []string{"decide"}
	}
	return []string{"read"}
}

// verbOf returns the verb of that name, or nil.
func verbOf(name string) *verb {
	for i := range verbs {
		if verbs[i].name == name {
			return &verbs[i]
		}
	}
	return nil
}

// question is the content of a body.
type question struct {
	has         fields
	key, policy string
	limits      []string
	// attributes are in the order of the body, for the key in the answer.
	attributes      []policy.Attribute
	cost, upTo      int64
	costs           []policy.FieldCost
	token, tokenTTL string
	force           bool
}

// reset clears the content, and keeps the memory.
func (q *question) reset() {
	clear(q.limits)
	clear(q.attributes)
	*q = question{limits: q.limits[:0], attributes: q.attributes[:0], costs: q.costs[:0]}
}

// read reads a body for a verb. An error is a [store.ErrInvalid].
func (q *question) read(v *verb, text string) error {
	const byteOrderMark = "\ufeff"
	s := scan(text)
	switch {
	case s.next() == 0 && s.at == len(text):
		return store.Invalidf(`the body is empty; send JSON, such as {"key":"user:42","limits":["10/1m"]}`)
	case strings.HasPrefix(text, byteOrderMark):
		return store.Invalidf("the body begins with a byte order mark; send UTF-8 without one")
	}
	more, err := s.open()
	for more && err == nil {
		var name string
		if name, err = s.name(); err != nil {
			break
		}
		if err = q.readField(v, &s, name); err == nil {
			more, err = s.more()
		}
	}
	if err != nil {
		return err
	}
	if s.space(); s.at != len(text) {
		return s.wrong("the end of the body")
	}
	return nil
}

// readField reads the value of one field.
func (q *question) readField(v *verb, s *scanner, name string) (err error) {
	i := slices.Index(fieldNames, name)
	if i < 0 {
		return unknownField(v, name)
	}
	field := fields(1) << i
	switch {
	case v.fields&field == 0:
		return store.Invalidf("field %q is not for %s, which takes %s", name, v.name, strings.Join(v.fields.names(), ", "))
	case q.has&field != 0:
		return store.Invalidf("field %q is given twice; keep one", name)
	}
	q.has |= field
	switch field {
	case fieldKey:
		q.key, err = s.textOf("", name)
	case fieldLimits:
		q.limits, err = s.textsOf(name, q.limits, store.MaxRequests)
	case fieldPolicy:
		q.policy, err = s.textOf("", name)
	case fieldAttributes:
		err = q.readAttributes(s)
	case fieldCost:
		q.cost, err = s.numberOf(name)
	case fieldCosts:
		err = q.readCosts(s)
	case fieldToken:
		q.token, err = s.textOf("", name)
	case fieldTokenTTL:
		q.tokenTTL, err = s.textOf("", name)
	case fieldUpTo:
		q.upTo, err = s.numberOf(name)
	case fieldForce:
		q.force, err = s.booleanOf(name)
	}
	return err
}

func unknownField(v *verb, name string) error {
	known := v.fields.names()
	if near := texts.Nearest(strings.ToLower(name), known, 2); near != "" {
		return store.Invalidf("unknown field %q; did you mean %q?", shorten(name), near)
	}
	return store.Invalidf("unknown field %q; the fields of %s are %s", shorten(name), v.name, strings.Join(known, ", "))
}

// mostAttributes bounds the attributes of a body. A policy uses fewer, and each is compared with those before it.
const mostAttributes = 64

func (q *question) readAttributes(s *scanner) error {
	if s.next() != '{' {
		return s.mistaken("attributes", `an object of texts, such as {"ip":"203.0.113.9"}`)
	}
	return s.each(func() error { return q.readAttribute(s) })
}

func (q *question) readCosts(s *scanner) error {
	if s.next() != '{' {
		return s.mistaken("costs", `an object of whole numbers, such as {"tokens":3000}`)
	}
	return s.each(func() error { return q.readCost(s) })
}

func (q *question) readCost(s *scanner) error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if err := policy.ValidateName("cost", name); err != nil {
		return err
	}
	if len(q.costs) == store.MaxRequests {
		return store.Invalidf("there are more than %d costs; send those that the policy uses", store.MaxRequests)
	}
	units, err := s.numberOf("cost " + name)
	q.costs = append(q.costs, policy.FieldCost{Field: name, Units: units})
	return err
}

func (q *question) readAttribute(s *scanner) error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if err := policy.ValidateName("attribute", name); err != nil {
		return err
	}
	value, err := s.textOf("attribute ", name)
	switch {
	case err != nil:
		return err
	case value == "":
		return store.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
	case slices.ContainsFunc(q.attributes, func(a policy.Attribute) bool { return a.Name == name }):
		return store.Invalidf("attribute %q is given twice; keep one", name)
	case len(q.attributes) == mostAttributes:
		return store.Invalidf("there are more than %d attributes; send those that the policy uses", mostAttributes)
	}
	q.attributes = append(q.attributes, policy.Attribute{Name: name, Value: value})
	return nil
}
