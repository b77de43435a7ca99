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
	has := func(f fields) bool { return q.has&f != 0 }
	switch {
	case has(fieldKey) && has(fieldPolicy):
		return store.Invalidf("key and policy both say who is limited; send key with limits, or policy with attributes")
	case has(fieldPolicy) && has(fieldLimits):
		return store.Invalidf("policy and limits both say what is allowed; send one of them")
	case has(fieldPolicy) && q.policy == "":
		return store.Invalidf("policy is empty; name one, or send key and limits")
	case has(fieldPolicy):
	case has(fieldCosts):
		return store.Invalidf("costs are for a policy whose limits name them, and none is named; add policy")
	case has(fieldAttributes):
		return store.Invalidf("attributes are for a policy, and none is named; add policy")
	case !has(fieldKey) && !has(fieldLimits):
		return store.Invalidf("nothing says who is limited; send key and limits, or policy and attributes")
	case !has(fieldKey):
		return store.Invalidf(`key is missing; it says who is limited, such as "user:42"`)
	case len(q.limits) == 0:
		return store.Invalidf(`limits are missing; they say what is allowed, such as ["10/1m"]`)
	}
	return q.checkUnits(v)
}

// checkUnits checks the fields about units and tokens.
func (q *question) checkUnits(v *verb) error {
	has := func(f fields) bool { return q.has&f != 0 }
	switch {
	case has(fieldToken) && q.token == "":
		return store.Invalidf("token is empty; send a text that is different for each call, such as an order's number")
	case has(fieldTokenTTL) && !has(fieldToken):
		return store.Invalidf("token_ttl says how long to remember a token; add token")
	case v.op == store.Settle && !has(fieldToken):
		return store.Invalidf("settle needs the token that the units were taken with; add token")
	case v.op == store.Settle && !has(fieldCost) && !has(fieldCosts):
		return store.Invalidf("settle needs the real cost; add cost, or costs of a policy's fields")
	case q.force && has(fieldUpTo):
		return store.Invalidf("force takes all units and up_to those that fit; send one of them")
	case has(fieldCost) && has(fieldUpTo):
		return store.Invalidf("cost and up_to both say how many units; send one of them")
	case has(fieldUpTo) && (q.upTo < 1 || q.upTo > store.MaxCount):
		return store.Invalidf("up_to %d is out of range; it must be from 1 to %d", q.upTo, store.MaxCount)
	}
	return nil
}

// ask fills in the ask for the engine.
func (q *question) ask(v *verb, ask *engine.Ask) (err error) {
	if err := q.check(v); err != nil {
		return err
	}
	ask.Op, ask.Cost, ask.Key, ask.Policy, ask.Token = v.op, 1, q.key, q.policy, q.token
	switch {
	case v.op == store.Adjust:
		ask.Cost = 0 // units that stay in use
	case q.force:
		ask.Op = store.Charge
	case q.has&fieldUpTo != 0:
		ask.Op, ask.Cost = store.TakeUpTo, q.upTo
	}
	ask.Costs = q.costs
	if q.has&fieldCost != 0 {
		ask.Cost, ask.CostSaid = q.cost, true
	}
	if q.has&fieldTokenTTL != 0 {
		if ask.TokenTTL, err = parseTokenTTL(q.tokenTTL); err != nil {
			return err
		}
	}
	for _, text := range q.limits {
		limit, err := store.ParseLimit(text)
		if err == nil {
			err = limit.CheckStored()
		}
		if err != nil {
			return err
		}
		ask.Limits = append(ask.Limits, limit)
	}
	ask.Attributes = make(policy.Attributes, len(q.attributes))
	for _, a := range q.attributes {
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
	if q.policy == "" {
		return q.key
	}
	length := 0
	for _, a := range q.attributes {
		length += len(a.Name) + len(a.Value) + len("= ")
	}
	var b strings.Builder
	b.Grow(length)
	for i, a := range q.attributes {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.Name)
		b.WriteByte('=')
		b.WriteString(a.Value)
	}
	return b.String()
}
