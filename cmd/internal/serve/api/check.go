package api

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// check reports fields that are missing or contradict each other. The engine checks their values and the limits
// later.
func (q *question) check(v *verb) error {
	switch {
	case q.Key.has && q.Policy.has:
		return store.Invalidf("key and policy both say who is limited; send key with limits, or policy with attributes")
	case q.Policy.has && q.Limits.has:
		return store.Invalidf("policy and limits both say what is allowed; send one of them")
	case q.Policy.has && q.Policy.value == "":
		return store.Invalidf("policy is empty; name one, or send key and limits")
	case q.Policy.has:
	case q.Costs.has:
		return store.Invalidf("costs are for a policy whose limits name them, and none is named; add policy")
	case q.Attributes.has:
		return store.Invalidf("attributes are for a policy, and none is named; add policy")
	case !q.Key.has && !q.Limits.has:
		return store.Invalidf("nothing says who is limited; send key and limits, or policy and attributes")
	case !q.Key.has:
		return store.Invalidf(`key is missing; it says who is limited, such as "user:42"`)
	case len(q.Limits.value) == 0:
		return store.Invalidf(`limits are missing; they say what is allowed, such as ["10/1m"]`)
	case len(q.Limits.value) > store.MaxRequests:
		return store.Invalidf("there are more than %d limits; decide fewer together", store.MaxRequests)
	}
	return q.checkUnits(v)
}

// checkUnits checks the fields about units and tokens.
func (q *question) checkUnits(v *verb) error {
	switch {
	case q.Token.has && q.Token.value == "":
		return store.Invalidf("token is empty; send a text that is different for each call, such as an order's number")
	case q.TokenTTL.has && !q.Token.has:
		return store.Invalidf("token_ttl says how long to remember a token; add token")
	case v.op == store.Settle && !q.Token.has:
		return store.Invalidf("settle needs the token that the units were taken with; add token")
	case v.op == store.Settle && !q.Cost.has && !q.Costs.has:
		return store.Invalidf("settle needs the real cost; add cost, or costs of a policy's fields")
	case q.Force.value && q.UpTo.has:
		return store.Invalidf("force takes all units and up_to those that fit; send one of them")
	case q.Cost.has && q.UpTo.has:
		return store.Invalidf("cost and up_to both say how many units; send one of them")
	case q.UpTo.has && (q.UpTo.value < 1 || q.UpTo.value > store.MaxCount):
		return store.Invalidf("up_to %d is out of range; it must be from 1 to %d", q.UpTo.value, store.MaxCount)
	}
	return nil
}

// ask fills in the ask for the engine.
func (q *question) ask(v *verb, ask *engine.Ask) (err error) {
	if err := q.check(v); err != nil {
		return err
	}
	ask.Op, ask.Cost, ask.Key, ask.Policy, ask.Token = v.op, 1, q.Key.value, q.Policy.value, q.Token.value
	switch {
	case v.op == store.Adjust:
		ask.Cost = 0 // units that stay in use
	case q.Force.value:
		ask.Op = store.Charge
	case q.UpTo.has:
		ask.Op, ask.Cost = store.TakeUpTo, q.UpTo.value
	}
	ask.Costs = q.Costs.value
	if q.Cost.has {
		ask.Cost, ask.CostSaid = q.Cost.value, true
	}
	if q.TokenTTL.has {
		if ask.TokenTTL, err = parseTokenTTL(q.TokenTTL.value); err != nil {
			return err
		}
	}
	for _, text := range q.Limits.value {
		limit, err := store.ParseLimit(text)
		if err == nil {
			err = limit.CheckStored()
		}
		if err != nil {
			return err
		}
		ask.Limits = append(ask.Limits, limit)
	}
	if q.Attributes.has {
		ask.Attributes = make(policy.Attributes, len(q.Attributes.value))
	}
	for _, a := range q.Attributes.value {
		ask.Attributes[a.Name] = a.Value
	}
	return nil
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
	if q.Policy.value == "" {
		return q.Key.value
	}
	length := 0
	for _, a := range q.Attributes.value {
		length += len(a.Name) + len(a.Value) + len("= ")
	}
	var b strings.Builder
	b.Grow(length)
	for i, a := range q.Attributes.value {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Name)
		b.WriteByte('=')
		b.WriteString(a.Value)
	}
	return b.String()
}
