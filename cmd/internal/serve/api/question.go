package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/strictjson"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// verb is an operation of the interface: the last part of the path.
type verb struct {
	name   string
	op     store.Op
	fields []string // that a body may have
	scopes []string // of which a token needs one
}

// verbs are all operations.
var verbs = []verb{
	{"check", store.Peek, fields("token", "token_ttl"), []string{"decide", "read"}},
	{"consume", store.Take, fields("token", "token_ttl", "up_to", "force"), []string{"decide"}},
	{"refund", store.Refund, fields("token"), []string{"refund"}},
	{"settle", store.Settle, fields("token"), []string{"refund"}},
	{"reset", store.Adjust, fields()[:4], []string{"reset"}},
}

// fields returns those that say who and what, and others.
func fields(others ...string) []string {
	return append([]string{"key", "limits", "policy", "attributes", "cost", "costs"}, others...)
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
	Key        field[string]     `json:"key"`
	Limits     field[[]string]   `json:"limits"`
	Policy     field[string]     `json:"policy"`
	Attributes field[attributes] `json:"attributes"`
	Cost       field[int64]      `json:"cost"`
	Costs      field[costs]      `json:"costs"`
	Token      field[string]     `json:"token"`
	TokenTTL   field[string]     `json:"token_ttl"`
	UpTo       field[int64]      `json:"up_to"`
	Force      field[bool]       `json:"force"`
}

// field is a value that can be missing.
type field[T any] struct {
	value T
	has   bool
}

// twice stands for the value of a field that has two.
const twice = "two values"

// UnmarshalJSON implements [json.Unmarshaler]. It refuses a second value, and null, at which encoding/json does nothing.
func (f *field[T]) UnmarshalJSON(text []byte) error {
	switch {
	case f.has:
		return &json.UnmarshalTypeError{Value: twice}
	case string(text) == "null":
		return &json.UnmarshalTypeError{Value: "null"}
	}
	f.has = true
	return json.Unmarshal(text, &f.value)
}

const aNumber = "a whole number without quotes, such as 1"

// kinds are what fields must be, if they are no texts.
var kinds = map[string]string{
	"limits": "a list of texts", "attributes": `an object of texts, such as {"ip":"203.0.113.9"}`, "cost": aNumber, "up_to": aNumber,
	"costs": `an object of whole numbers, such as {"tokens":3000}`, "force": "true or false",
}

// read reads a body for a verb. An error is a [store.ErrInvalid].
func (q *question) read(v *verb, body []byte) error {
	d, err := strictjson.NewDecoder(body)
	if err != nil {
		return wrongBody(v, err)
	}
	d.DisallowUnknownFields()
	switch err := d.Decode(q); {
	case errors.Is(err, io.EOF):
		return store.Invalidf(`the body is empty; send JSON, such as {"key":"user:42","limits":["10/1m"]}`)
	case err != nil:
		return wrongBody(v, err)
	}
	if err := strictjson.End(d); err != nil {
		return wrongBody(v, err)
	}
	if slices.ContainsFunc(body, func(b byte) bool { return 'A' <= b && b <= 'Z' || b == '\\' || b >= utf8.RuneSelf }) { // in a name?
		if err := strictjson.Names(body, q); err != nil {
			return wrongBody(v, err)
		}
	}
	for _, some := range [...]struct {
		name string
		has  bool
	}{{"cost", q.Cost.has}, {"costs", q.Costs.has}, {"token", q.Token.has}, {"token_ttl", q.TokenTTL.has}, {"up_to", q.UpTo.has},
		{"force", q.Force.has}} {
		if some.has && !slices.Contains(v.fields, some.name) {
			return unknownField(v, some.name)
		}
	}
	return nil
}

// wrongBody says in terms of a body what an error of its decoder means.
func wrongBody(v *verb, err error) error {
	mistaken, syntax := new(json.UnmarshalTypeError), new(json.SyntaxError)
	switch {
	case errors.Is(err, store.ErrInvalid):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return store.Invalidf("the body ends too early")
	case errors.As(err, &syntax):
		return store.Invalidf("the body is not valid JSON at byte %d: %s", syntax.Offset, err)
	case errors.As(err, &mistaken) && mistaken.Field == "":
		return store.Invalidf(`the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`)
	case mistaken.Value == twice:
		return store.Invalidf("%q is given twice; keep one", mistaken.Field)
	case mistaken.Field != "":
		return wrongKind(mistaken.Field, cmp.Or(kinds[mistaken.Field], "a text"), mistaken)
	}
	if name, is := strings.CutPrefix(strings.TrimPrefix(err.Error(), "json: "), "unknown field "); is {
		return unknownField(v, strings.Trim(name, `"`))
	}
	return store.Invalidf("the body: %s", err)
}

func wrongKind(name, must string, mistaken *json.UnmarshalTypeError) error {
	return store.Invalidf("%s must be %s, not %s", name, must, shorten(mistaken.Value))
}

func unknownField(v *verb, name string) error {
	if near := texts.Nearest(strings.ToLower(name), v.fields, 2); near != "" {
		return store.Invalidf("unknown field %q; did you mean %q?", shorten(name), near)
	}
	return store.Invalidf("unknown field %q; the fields of %s are %s", shorten(name), v.name, strings.Join(v.fields, ", "))
}

// mostAttributes bounds the attributes of a body. A policy uses fewer.
const mostAttributes = 64

// attributes are in the order of the body, for the key in the answer.
type attributes []policy.Attribute

// UnmarshalJSON implements [json.Unmarshaler].
func (all *attributes) UnmarshalJSON(text []byte) error {
	return members(text, "attribute", "a text", func(name, value string) error {
		switch {
		case value == "":
			return store.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
		case len(*all) == mostAttributes:
			return store.Invalidf("there are more than %d attributes; send those that the policy uses", mostAttributes)
		}
		*all = append(*all, policy.Attribute{Name: name, Value: value})
		return nil
	})
}

// costs are units by the names of costs.
type costs []policy.FieldCost

// UnmarshalJSON implements [json.Unmarshaler].
func (all *costs) UnmarshalJSON(text []byte) error {
	return members(text, "cost", aNumber, func(name string, units int64) error {
		if len(*all) == store.MaxRequests {
			return store.Invalidf("there are more than %d costs; send those that the policy uses", store.MaxRequests)
		}
		*all = append(*all, policy.FieldCost{Field: name, Units: units})
		return nil
	})
}

// members reads an object whose names are those of policies, and calls add for each.
func members[T any](text []byte, what, must string, add func(name string, value T) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return &json.UnmarshalTypeError{Value: string(text)}
	}
	return strictjson.Members(d, func(name string) error {
		if err := policy.ValidateName(what, name); err != nil {
			return err
		}
		var value field[T]
		err := d.Decode(&value)
		mistaken := new(json.UnmarshalTypeError)
		switch {
		case errors.As(err, &mistaken):
			return wrongKind(what+" "+name, must, mistaken)
		case err != nil:
			return err
		}
		return add(name, value.value)
	})
}
