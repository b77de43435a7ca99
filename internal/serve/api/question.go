package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/serve/engine"
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

// question is the content of a body. What it lacks is nil.
type question struct {
	Key, Policy, Token, TokenTTL *string
	Limits                       []string
	Attributes                   []policy.Attribute // in the order of the body, for the key in the answer
	Costs                        []policy.FieldCost
	Cost, UpTo                   *int64
	Force                        *bool
}

const (
	aText   = "a text"
	aNumber = "a whole number without quotes, such as 1"
)

// mostAttributes bounds the attributes of a body. A policy uses fewer.
const mostAttributes = 64

// readQuestion reads a body for a verb. An error is a [store.ErrInvalid].
func readQuestion(v *verb, body []byte) (q question, err error) {
	d, err := strictjson.NewDecoder(body)
	if err != nil {
		return q, store.Invalidf("the body: %s", err)
	}
	switch token, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return q, store.Invalidf(`the body is empty; send JSON, such as {"key":"user:42","limits":["10/1m"]}`)
	case err == nil && token != json.Delim('{'):
		return q, store.Invalidf(`the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`)
	case err != nil:
		return q, wrongBody(err)
	}
	err = strictjson.Members(d, func(name string) error {
		if !slices.Contains(v.fields, name) {
			return unknownField(v, name)
		}
		switch name {
		case "key":
			return value(d, body, name, aText, &q.Key)
		case "policy":
			return value(d, body, name, aText, &q.Policy)
		case "token":
			return value(d, body, name, aText, &q.Token)
		case "token_ttl":
			return value(d, body, name, aText, &q.TokenTTL)
		case "limits":
			return value(d, body, name, "a list of texts", &q.Limits)
		case "cost":
			return value(d, body, name, aNumber, &q.Cost)
		case "up_to":
			return value(d, body, name, aNumber, &q.UpTo)
		case "force":
			return value(d, body, name, "true or false", &q.Force)
		case "attributes":
			q.Attributes = []policy.Attribute{}
			return members(d, body, name, `an object of texts, such as {"ip":"203.0.113.9"}`, "attribute", aText,
				func(name, text string) error {
					switch {
					case text == "":
						return store.Invalidf("attribute %q is empty; give it a value, or all who leave it empty share one subject", name)
					case len(q.Attributes) == mostAttributes:
						return store.Invalidf("there are more than %d attributes; send those that the policy uses", mostAttributes)
					}
					q.Attributes = append(q.Attributes, policy.Attribute{Name: name, Value: text})
					return nil
				})
		}
		q.Costs = []policy.FieldCost{}
		return members(d, body, name, `an object of whole numbers, such as {"tokens":3000}`, "cost", aNumber,
			func(name string, units int64) error {
				if len(q.Costs) == store.MaxRequests {
					return store.Invalidf("there are more than %d costs; send those that the policy uses", store.MaxRequests)
				}
				q.Costs = append(q.Costs, policy.FieldCost{Field: name, Units: units})
				return nil
			})
	})
	return q, wrongBody(cmp.Or(err, strictjson.End(d)))
}

// value reads a value, which must be what the text says.
func value[T any](d *json.Decoder, body []byte, name, must string, into *T) error {
	if rest := bytes.TrimLeft(body[d.InputOffset():], ": \t\r\n"); bytes.HasPrefix(rest, []byte("null")) { // at which Decode does nothing
		return store.Invalidf("%s must be %s, not null", name, must)
	}
	err := d.Decode(into)
	if mistaken, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return store.Invalidf("%s must be %s, not %s", name, must, shorten(mistaken.Value))
	}
	return err
}

// members reads an object whose names are those of policies, and calls add for each.
func members[T any](d *json.Decoder, body []byte, field, must, what, each string, add func(name string, value T) error) error {
	switch token, err := d.Token(); {
	case err != nil:
		return err
	case token != json.Delim('{'):
		return store.Invalidf("%s must be %s", field, must)
	}
	return strictjson.Members(d, func(name string) error {
		if err := policy.ValidateName(what, name); err != nil {
			return err
		}
		var read T
		if err := value(d, body, what+" "+name, each, &read); err != nil {
			return err
		}
		return add(name, read)
	})
}

// wrongBody says in terms of a body what an error of its decoder means.
func wrongBody(err error) error {
	syntax, is := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil || errors.Is(err, store.ErrInvalid):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return store.Invalidf("the body ends too early")
	case is:
		return store.Invalidf("the body is not valid JSON at byte %d: %s", syntax.Offset, err)
	}
	return store.Invalidf("the body: %s", err)
}

func unknownField(v *verb, name string) error {
	if near := texts.Nearest(strings.ToLower(name), v.fields, 2); near != "" {
		return store.Invalidf("unknown field %q; did you mean %q?", shorten(name), near)
	}
	return store.Invalidf("unknown field %q; the fields of %s are %s", shorten(name), v.name, strings.Join(v.fields, ", "))
}

// check reports fields that are missing or contradict each other. The engine checks their values and the limits
// later.
func (q *question) check(v *verb) error {
	switch {
	case q.Key != nil && q.Policy != nil:
		return store.Invalidf("key and policy both say who is limited; send key with limits, or policy with attributes")
	case q.Policy != nil && q.Limits != nil:
		return store.Invalidf("policy and limits both say what is allowed; send one of them")
	case q.Policy != nil && *q.Policy == "":
		return store.Invalidf("policy is empty; name one, or send key and limits")
	case q.Policy != nil:
	case q.Costs != nil:
		return store.Invalidf("costs are for a policy whose limits name them, and none is named; add policy")
	case q.Attributes != nil:
		return store.Invalidf("attributes are for a policy, and none is named; add policy")
	case q.Key == nil && q.Limits == nil:
		return store.Invalidf("nothing says who is limited; send key and limits, or policy and attributes")
	case q.Key == nil:
		return store.Invalidf(`key is missing; it says who is limited, such as "user:42"`)
	case len(q.Limits) == 0:
		return store.Invalidf(`limits are missing; they say what is allowed, such as ["10/1m"]`)
	case len(q.Limits) > store.MaxRequests:
		return store.Invalidf("there are more than %d limits; decide fewer together", store.MaxRequests)
	}
	switch {
	case q.Token != nil && *q.Token == "":
		return store.Invalidf("token is empty; send a text that is different for each call, such as an order's number")
	case q.TokenTTL != nil && q.Token == nil:
		return store.Invalidf("token_ttl says how long to remember a token; add token")
	case v.op == store.Settle && q.Token == nil:
		return store.Invalidf("settle needs the token that the units were taken with; add token")
	case v.op == store.Settle && q.Cost == nil && q.Costs == nil:
		return store.Invalidf("settle needs the real cost; add cost, or costs of a policy's fields")
	case valueOf(q.Force) && q.UpTo != nil:
		return store.Invalidf("force takes all units and up_to those that fit; send one of them")
	case q.Cost != nil && q.UpTo != nil:
		return store.Invalidf("cost and up_to both say how many units; send one of them")
	case q.UpTo != nil && (*q.UpTo < 1 || *q.UpTo > store.MaxCount):
		return store.Invalidf("up_to %d is out of range; it must be from 1 to %d", *q.UpTo, store.MaxCount)
	}
	return nil
}

// ask returns the ask for the engine.
func (q *question) ask(v *verb, settings *engine.Settings) (ask engine.Ask, err error) {
	if err := q.check(v); err != nil {
		return ask, err
	}
	ask = engine.Ask{Settings: settings, Op: v.op, Cost: 1, Key: valueOf(q.Key), Policy: valueOf(q.Policy), Token: valueOf(q.Token),
		Costs: q.Costs, CostSaid: q.Cost != nil}
	switch {
	case v.op == store.Adjust:
		ask.Cost = 0 // units that stay in use
	case valueOf(q.Force):
		ask.Op = store.Charge
	case q.UpTo != nil:
		ask.Op, ask.Cost = store.TakeUpTo, *q.UpTo
	}
	if q.Cost != nil {
		ask.Cost = *q.Cost
	}
	if q.TokenTTL != nil {
		if ask.TokenTTL, err = parseTokenTTL(*q.TokenTTL); err != nil {
			return ask, err
		}
	}
	for _, text := range q.Limits {
		limit, err := store.ParseLimit(text)
		if err == nil {
			err = limit.CheckStored()
		}
		if err != nil {
			return ask, err
		}
		ask.Limits = append(ask.Limits, limit)
	}
	if q.Attributes != nil {
		ask.Attributes = make(policy.Attributes, len(q.Attributes))
	}
	for _, a := range q.Attributes {
		ask.Attributes[a.Name] = a.Value
	}
	return ask, nil
}

// valueOf is what p points to, or the zero value.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func parseTokenTTL(text string) (time.Duration, error) {
	ttl, err := store.ParsePeriod(text)
	if err != nil {
		return 0, store.Invalidf("token_ttl: %s", err)
	}
	if ttl < store.MinTokenTTL || ttl > store.MaxTokenTTL {
		return 0, store.Invalidf("token_ttl %s is out of range; it must be from %s to %s", text, store.FormatPeriod(store.MinTokenTTL),
			store.FormatPeriod(store.MaxTokenTTL))
	}
	return ttl, nil
}

// subject is the subject in the answer: the key, or the attributes in the form of the command line.
func (q *question) subject() string {
	if q.Policy == nil {
		return valueOf(q.Key)
	}
	var b strings.Builder
	for i, a := range q.Attributes {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Name)
		b.WriteByte('=')
		b.WriteString(a.Value)
	}
	return b.String()
}
