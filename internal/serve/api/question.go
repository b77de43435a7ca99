package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

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
	Key        *string           `json:"key"`
	Limits     []string          `json:"limits"`
	Policy     *string           `json:"policy"`
	Attributes policy.Attributes `json:"attributes"`
	Cost       *int64            `json:"cost"`
	Costs      map[string]int64  `json:"costs"`
	Token      *string           `json:"token"`
	TokenTTL   *string           `json:"token_ttl"`
	UpTo       *int64            `json:"up_to"`
	Force      bool              `json:"force"`
}

// allFields are those of a question, in their order.
var allFields = fields("token", "token_ttl", "up_to", "force")

// kinds say what the values of fields must be. All others are texts.
var kinds = map[string]string{
	"limits": "a list of texts", "attributes": `an object of texts, such as {"ip":"203.0.113.9"}`,
	"cost": aNumber, "costs": `an object of whole numbers, such as {"tokens":3000}`, "up_to": aNumber,
	"force": "true or false",
}

const aNumber = "a whole number without quotes, such as 1"

// read reads a body for a verb. An error is a [store.ErrInvalid]. The decoder refuses unknown names, those given twice,
// invalid UTF-8 and half surrogate pairs.
func (q *question) read(v *verb, body []byte) error {
	err := json.Unmarshal(body, q, json.RejectUnknownMembers(true))
	syntax, isSyntax := errors.AsType[*jsontext.SyntacticError](err)
	wrong, isWrong := errors.AsType[*json.SemanticError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return store.Invalidf("the body ends too early")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return store.Invalidf("%q is given twice; keep one", shorten(syntax.JSONPointer.LastToken()))
	case isSyntax:
		return store.Invalidf("the body is not valid JSON at byte %d: %s", syntax.ByteOffset+1, syntax.Err)
	case errors.Is(err, json.ErrUnknownName):
		return unknownField(v, wrong.JSONPointer.LastToken())
	case isWrong && wrong.JSONPointer == "":
		return store.Invalidf(`the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`)
	case isWrong:
		name, _, _ := strings.Cut(string(wrong.JSONPointer[1:]), "/")
		return store.Invalidf("%s must be %s", name, cmp.Or(kinds[name], "a text"))
	}
	if err == nil && hasNull(body) {
		return store.Invalidf("null is no value; leave the field out")
	}
	for i, name := range allFields {
		if !slices.Contains(v.fields, name) && !reflect.ValueOf(q).Elem().Field(i).IsZero() {
			return unknownField(v, name)
		}
	}
	return err
}

// hasNull reports whether a value in a valid body is null. It could be a token, without which a retry is charged twice.
func hasNull(body []byte) bool {
	if !bytes.Contains(body, []byte("null")) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	token, err := d.ReadToken()
	for err == nil && token.Kind() != 'n' {
		token, err = d.ReadToken()
	}
	return err == nil
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
		Token: valueOf(q.Token), Attributes: q.Attributes, CostSaid: q.Cost != nil}
	for _, field := range slices.Sorted(maps.Keys(q.Costs)) {
		ask.Costs = append(ask.Costs, policy.FieldCost{Field: field, Units: q.Costs[field]})
	}
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
	return q.Attributes.Text()
}
