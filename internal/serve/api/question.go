package api

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/limitctl/limitctl/internal/serve/engine"
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
	Force                        bool
}

const (
	aText   = "a text"
	aNumber = "a whole number without quotes, such as 1"
)

// mostNames bounds the attributes and the costs of a body. A policy uses fewer.
const mostNames = 64

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// read reads a body for a verb. An error is a [store.ErrInvalid]. The decoder refuses names given twice, invalid UTF-8
// and half surrogate pairs.
func (q *question) read(v *verb, body []byte) error {
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(body))
	switch token, err := d.ReadToken(); {
	case err != nil && !errors.Is(err, io.EOF):
		return wrongBody(err)
	case token.Kind() != '{':
		return store.Invalidf(`the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`)
	}
	err := members(d, func(name string) error {
		if !slices.Contains(v.fields, name) {
			return unknownField(v, name)
		}
		switch name {
		case "key":
			return readText(d, name, &q.Key)
		case "policy":
			return readText(d, name, &q.Policy)
		case "token":
			return readText(d, name, &q.Token)
		case "token_ttl":
			return readText(d, name, &q.TokenTTL)
		case "cost":
			return readNumber(d, name, &q.Cost)
		case "up_to":
			return readNumber(d, name, &q.UpTo)
		case "force":
			token, err := readToken(d, "tf", name, "true or false")
			q.Force = err == nil && token.Bool()
			return err
		case "limits":
			err := json.UnmarshalDecode(d, &q.Limits)
			if _, is := errors.AsType[*json.SemanticError](err); is || err == nil && q.Limits == nil {
				err = store.Invalidf("limits must be a list of texts")
			}
			return err
		case "attributes":
			q.Attributes = []policy.Attribute{}
			return named(d, name, `an object of texts, such as {"ip":"203.0.113.9"}`, "attribute",
				func(name, what string) error {
					token, err := readToken(d, `"`, what, aText)
					if err == nil && token.String() == "" {
						err = store.Invalidf(
							"%s is empty; give it a value, or all who leave it empty share one subject", what)
					}
					q.Attributes = append(q.Attributes, policy.Attribute{Name: name, Value: token.String()})
					return err
				})
		}
		q.Costs = []policy.FieldCost{}
		return named(d, name, `an object of whole numbers, such as {"tokens":3000}`, "cost",
			func(name, what string) error {
				var units *int64
				err := readNumber(d, what, &units)
				q.Costs = append(q.Costs, policy.FieldCost{Field: name, Units: valueOf(units)})
				return err
			})
	})
	if err != nil {
		return wrongBody(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return store.Invalidf("the body: something follows its end at byte %d", d.InputOffset())
	}
	return nil
}

// members reads an object after its brace.
func members(d *jsontext.Decoder, member func(name string) error) error {
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err == nil {
			err = member(name.String())
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// named reads an object whose names are those of policies, for costs and attributes.
func named(d *jsontext.Decoder, field, must, what string, member func(name, what string) error) error {
	if _, err := readToken(d, "{", field, must); err != nil {
		return err
	}
	given := 0
	return members(d, func(name string) error {
		if err := policy.ValidateName(what, name); err != nil {
			return err
		}
		if given++; given > mostNames {
			return store.Invalidf("there are more than %d %ss; send those that the policy uses", mostNames, what)
		}
		return member(name, what+" "+name)
	})
}

// readToken reads a token of one of the kinds. It must be what the text says.
func readToken(d *jsontext.Decoder, kinds, name, must string) (jsontext.Token, error) {
	token, err := d.ReadToken()
	if err == nil && strings.IndexByte(kinds, byte(token.Kind())) < 0 {
		err = mustBe(name, must, token)
	}
	return token, err
}

func mustBe(name, must string, token jsontext.Token) error {
	text := token.String()
	if token.Kind() == '"' {
		text = strconv.Quote(text)
	}
	return store.Invalidf("%s must be %s, not %s", name, must, shorten(text))
}

func readText(d *jsontext.Decoder, name string, into **string) error {
	token, err := readToken(d, `"`, name, aText)
	if err == nil {
		*into = new(token.String())
	}
	return err
}

func readNumber(d *jsontext.Decoder, name string, into **int64) error {
	token, err := readToken(d, "0", name, aNumber)
	if err != nil {
		return err
	}
	n, err := token.Int()
	if err != nil {
		return mustBe(name, aNumber, token)
	}
	*into = &n
	return nil
}

// wrongBody says in terms of a body what an error of its decoder means.
func wrongBody(err error) error {
	syntax, is := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !is:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return store.Invalidf("the body ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return store.Invalidf("%q is given twice; keep one", shorten(syntax.JSONPointer.LastToken()))
	}
	return store.Invalidf("the body is not valid JSON at byte %d: %s", syntax.ByteOffset+1, syntax.Err)
}

func unknownField(v *verb, name string) error {
	if near := texts.Nearest(strings.ToLower(name), v.fields, 2); near != "" {
		return store.Invalidf("unknown field %q; did you mean %q?", shorten(name), near)
	}
	return store.Invalidf("unknown field %q; the fields of %s are %s", shorten(name), v.name,
		strings.Join(v.fields, ", "))
}

// check reports fields that are missing or contradict each other. The engine checks their values and the limits
// later.
func (q *question) check(v *verb) error {
	switch {
	case q.Policy != nil && (q.Key != nil || q.Limits != nil):
		return store.Invalidf("policy is for attributes, without key and limits; send one or the other")
	case q.Policy != nil && *q.Policy == "":
		return store.Invalidf("policy is empty; name one, or send key and limits")
	case q.Policy != nil:
	case q.Costs != nil || q.Attributes != nil:
		return store.Invalidf("attributes and costs are for a policy, and none is named; add policy")
	case q.Key == nil:
		return store.Invalidf(
			`key is missing; it says who is limited, such as "user:42"; or send policy and attributes`)
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
	case v.op == store.Settle && q.Cost == nil && q.Costs == nil:
		return store.Invalidf("settle needs the real cost; add cost, or costs of a policy's fields")
	case q.UpTo != nil && (q.Cost != nil || q.Force):
		return store.Invalidf("up_to is for itself; send it without cost and force")
	}
	return nil
}

// ask makes the ask for the engine.
func (q *question) ask(ask *engine.Ask, v *verb, settings *engine.Settings) (err error) {
	if err := q.check(v); err != nil {
		return err
	}
	*ask = engine.Ask{Settings: settings, Op: v.op, Cost: 1, Key: valueOf(q.Key), Policy: valueOf(q.Policy),
		Token: valueOf(q.Token),
		Costs: q.Costs, CostSaid: q.Cost != nil}
	switch {
	case v.op == store.Adjust:
		ask.Cost = 0 // units that stay in use
	case q.Force:
		ask.Op = store.Charge
	case q.UpTo != nil:
		ask.Op, ask.Cost = store.TakeUpTo, *q.UpTo
	}
	if q.Cost != nil {
		ask.Cost = *q.Cost
	}
	if q.TokenTTL != nil {
		if ask.TokenTTL, err = store.ParsePeriod(*q.TokenTTL); err != nil {
			return store.Invalidf("token_ttl: %s", err)
		}
	}
	for _, text := range q.Limits {
		limit, err := store.ParseLimit(text)
		if err == nil {
			err = limit.CheckStored()
		}
		if err != nil {
			return err
		}
		ask.Limits = append(ask.Limits, limit)
	}
	if q.Attributes != nil {
		ask.Attributes = make(policy.Attributes, len(q.Attributes))
	}
	for _, a := range q.Attributes {
		ask.Attributes[a.Name] = a.Value
	}
	return nil
}

// valueOf is what p points to, or the zero value.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// subject is the subject in the answer: the key, or the attributes in the form of the command line.
func (q *question) subject() string {
	if q.Policy == nil {
		return valueOf(q.Key)
	}
	words := make([]string, len(q.Attributes))
	for i, a := range q.Attributes {
		words[i] = a.Name + "=" + a.Value
	}
	return strings.Join(words, " ")
}
