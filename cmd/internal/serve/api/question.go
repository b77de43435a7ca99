package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/limitctl/limitctl/internal/strictjson"
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

// fieldList are the fields in the order of their bits: what each must be, and where it is kept.
var fieldList = []struct {
	name, must string
	in         func(*question) any
}{
	{"key", "a text", func(q *question) any { return &q.key }},
	{"limits", "a list of texts", func(q *question) any { return &q.limits }},
	{"policy", "a text", func(q *question) any { return &q.policy }},
	{"attributes", `an object of texts, such as {"ip":"203.0.113.9"}`, func(q *question) any { return &q.attributes }},
	{"cost", aNumber, func(q *question) any { return &q.cost }},
	{"costs", `an object of whole numbers, such as {"tokens":3000}`, func(q *question) any { return &q.costs }},
	{"token", "a text", func(q *question) any { return &q.token }},
	{"token_ttl", "a text", func(q *question) any { return &q.tokenTTL }},
	{"up_to", aNumber, func(q *question) any { return &q.upTo }},
	{"force", "true or false", func(q *question) any { return &q.force }},
}

const aNumber = "a whole number without quotes, such as 1"

// names are the names of the fields in a set.
func (f fields) names() (names []string) {
	for i := range fieldList {
		if f&(1<<i) != 0 {
			names = append(names, fieldList[i].name)
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
	has             fields
	key, policy     string
	limits          []string
	attributes      attributes
	cost, upTo      int64
	costs           costs
	token, tokenTTL string
	force           bool
}

// read reads a body for a verb. An error is a [store.ErrInvalid].
func (q *question) read(v *verb, body []byte) error {
	d, err := strictjson.NewDecoder(body)
	if err != nil {
		return wrongBody(err)
	}
	switch token, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return store.Invalidf(`the body is empty; send JSON, such as {"key":"user:42","limits":["10/1m"]}`)
	case err != nil:
		return wrongBody(err)
	case token != json.Delim('{'):
		return store.Invalidf(`the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`)
	}
	if err = strictjson.Members(d, func(name string) error { return q.readField(v, d, body, name) }); err == nil {
		err = strictjson.End(d)
	}
	return wrongBody(err)
}

// wrongBody makes an error about a body of any error.
func wrongBody(err error) error {
	syntax := new(json.SyntaxError)
	switch {
	case err == nil || errors.Is(err, store.ErrInvalid):
		return err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return store.Invalidf("the body ends too early")
	case errors.As(err, &syntax):
		return store.Invalidf("the body is not valid JSON at byte %d: %s", syntax.Offset, err)
	}
	return store.Invalidf("the body: %s", err)
}

// readField reads the value of one field.
func (q *question) readField(v *verb, d *json.Decoder, body []byte, name string) error {
	for i := range fieldList {
		if f := &fieldList[i]; f.name == name && v.fields&(1<<i) != 0 {
			q.has |= 1 << i
			return readValue(d, body, f.in(q), name, f.must)
		}
	}
	known := v.fields.names()
	if near := texts.Nearest(strings.ToLower(name), known, 2); near != "" {
		return store.Invalidf("unknown field %q; did you mean %q?", shorten(name), near)
	}
	return store.Invalidf("unknown field %q; the fields of %s are %s", shorten(name), v.name, strings.Join(known, ", "))
}

// readValue reads a value of text with its decoder. encoding/json does nothing at null.
func readValue(d *json.Decoder, text []byte, into any, name, must string) error {
	err := d.Decode(into)
	mistaken := &json.UnmarshalTypeError{Value: "null"}
	if errors.As(err, &mistaken) || err == nil && bytes.HasSuffix(text[:d.InputOffset()], []byte("null")) {
		return store.Invalidf("%s must be %s, not %s", name, must, shorten(mistaken.Value))
	}
	return err
}

// mostAttributes bounds the attributes of a body. A policy uses fewer.
const mostAttributes = 64

// attributes are in the order of the body, for the key in the answer.
type attributes []policy.Attribute

// UnmarshalJSON implements [json.Unmarshaler].
func (all *attributes) UnmarshalJSON(text []byte) error {
	return readMembers(text, "attribute", func(d *json.Decoder, name string) error {
		a := policy.Attribute{Name: name}
		switch err := readValue(d, text, &a.Value, "attribute "+name, "a text"); {
		case err != nil:
			return err
		case a.Value == "":
			return store.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
		case len(*all) == mostAttributes:
			return store.Invalidf("there are more than %d attributes; send those that the policy uses", mostAttributes)
		}
		*all = append(*all, a)
		return nil
	})
}

// costs are units by the names of costs.
type costs []policy.FieldCost

// UnmarshalJSON implements [json.Unmarshaler].
func (all *costs) UnmarshalJSON(text []byte) error {
	return readMembers(text, "cost", func(d *json.Decoder, name string) error {
		c := policy.FieldCost{Field: name}
		if len(*all) == store.MaxRequests {
			return store.Invalidf("there are more than %d costs; send those that the policy uses", store.MaxRequests)
		}
		err := readValue(d, text, &c.Units, "cost "+name, aNumber)
		*all = append(*all, c)
		return err
	})
}

// readMembers reads an object whose names are those of policies.
func readMembers(text []byte, what string, read func(d *json.Decoder, name string) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return &json.UnmarshalTypeError{Value: string(text)}
	}
	return strictjson.Members(d, func(name string) error {
		if err := policy.ValidateName(what, name); err != nil {
			return err
		}
		return read(d, name)
	})
}
