package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DecideAll decides several asks at one instant, all or nothing: if one of them is denied, nothing is charged. All
// must have a policy, and the operation of the first. The answers have the indexes of the asks, and contain the
// requests even after an error.
//
// Asks with a key in common charge the sum of their costs to it, and get the same decision, which counts once. If an ask has
// Limits, as many as its policy, they replace the limits of the policy.
//
// A cost that can never fit is a denial, not an error: whoever asks for many at once could not tell which of them is wrong.
// Nothing is charged then, and no time is told after which it fits.
//
// While the store is away, the strictest failure policy of the asks' policies applies to all: fail before deny,
// deny before local, local before allow.
//
// The settings of the first ask decide all of them.
func (e *Engine) DecideAll(ctx context.Context, asks []Ask, answers []decision.Answer) error {
	begun := time.Since(e.start)
	var err error
	if len(asks) == 1 && len(asks[0].Limits) == 0 {
		err = e.decide(ctx, &asks[0], &answers[0])
	} else {
		err = e.decideAll(ctx, asks, answers, false)
	}
	if errors.Is(err, store.ErrNeverFits) {
		err = e.decideAll(ctx, asks, answers, true)
	}
	took := time.Since(e.start) - begun
	for i := range answers {
		if err != nil {
			answers[i].Decisions = answers[i].Decisions[:0]
		}
		if e.options.OnDecision != nil && answers[i].IsOwn() {
			e.options.OnDecision(&asks[i], &answers[i], err, took)
		}
	}
	return err
}

// decideAll decides asks. neverFits: a cost of them can never fit.
func (e *Engine) decideAll(ctx context.Context, asks []Ask, answers []decision.Answer, neverFits bool) error {
	f := e.deciding(&asks[0])
	var strictest *decider
	requests := make([]store.Request, 0, 2*len(asks))
	places := make([][]int, len(asks)) // the indexes of each ask's requests among all
	for i := range asks {
		ask, answer := &asks[i], &answers[i]
		d := f.byName[ask.Policy]
		if d == nil {
			return ErrUnknownPolicy
		}
		if strictest == nil || stricter(d.policy.Policy, strictest.policy.Policy) {
			strictest = d
		}
		if err := ask.requests(d.policy, answer); err != nil {
			return err
		}
		first := len(requests)
		for j, request := range answer.Requests {
			place := placeOf(requests, &request)
			if place < 0 {
				place, requests = len(requests), append(requests, request)
			} else {
				requests[place].Cost = min(requests[place].Cost+request.Cost, store.MaxCount)
				if place < first {
					answer.SetShared(j)
				}
			}
			places[i] = append(places[i], place)
		}
	}
	op := asks[0].Op
	var never []bool
	if neverFits {
		never, op = shadowed(op, requests), store.Peek
	}
	requests, err := store.NormalizeAll(requests[:0], op, requests)
	decisions := make([]store.Decision, len(requests))
	if err == nil {
		err = strictest.store.Decide(ctx, op, requests, decisions)
	}
	switch {
	case neverFits:
		denyNever(requests, decisions, never, err != nil)
		e.countDenials(&asks[0], requests, decisions)
	case err != nil:
		return err
	}
	for i := range answers {
		answer := &answers[i]
		answer.Decisions = make([]store.Decision, len(places[i]))
		for j, place := range places[i] {
			answer.Requests[j], answer.Decisions[j] = requests[place], decisions[place]
		}
	}
	return nil
}

// shadowed makes shadows of the requests that op can never allow, so that a store tells what is left of their limits, and returns
// which they are. If none is, a layer below found that the call can never be allowed: then all are.
func shadowed(op store.Op, requests []store.Request) (never []bool) {
	never = make([]bool, len(requests))
	for i := range requests {
		requests[i].SetDefaults()
		never[i] = requests[i].NeverFits(op)
	}
	all := !slices.Contains(never, true)
	for i := range requests {
		if r := &requests[i]; never[i] || all && !r.Shadow {
			never[i], r.Shadow, r.Cost = true, true, min(r.Cost, store.MaxCount)
		}
	}
	return never
}

// denyNever turns the answers about shadows into denials. unknown: the store did not answer.
func denyNever(requests []store.Request, decisions []store.Decision, never []bool, unknown bool) {
	for i := range decisions {
		d := &decisions[i]
		if unknown {
			*d = store.Decision{Allowed: true, Unguarded: true, Shadow: requests[i].Shadow} // it was not asked
		}
		d.RetryAfter = 0 // the call is never allowed
		if !never[i] {
			continue
		}
		requests[i].Shadow = false
		if d.Unguarded {
			*d = store.Decision{}
		}
		d.Allowed, d.Shadow, d.Delay = false, false, 0
	}
}

// requests fills in the requests for ask under its policy.
func (ask *Ask) requests(p *policy.Prepared, answer *decision.Answer) (err error) {
	*answer = decision.Answer{Policy: p.Policy, Charges: charges(ask.Op)}
	answer.Requests, answer.Overrides, err = p.AppendRequests(nil, nil, ask.Attributes, ask.Cost, ask.Costs...)
	if err != nil {
		return err
	}
	if n := len(ask.Limits); n > 0 && n != len(answer.Requests) {
		return store.Invalidf("policy %q has %d limits, and %d are given instead", ask.Policy, len(answer.Requests), n)
	}
	for j, limit := range ask.Limits {
		r := &answer.Requests[j]
		r.Limit, r.Leave = limit, p.Limits[j].Leave(limit, ask.Attributes)
	}
	return nil
}

// placeOf returns the index of an equal request, or -1.
func placeOf(requests []store.Request, request *store.Request) int {
	for i := range requests {
		if requests[i].Key == request.Key && requests[i].Limit == request.Limit && requests[i].Leave == request.Leave &&
			requests[i].Shadow == request.Shadow {
			return i
		}
	}
	return -1
}

// stricter reports whether p lets less through than other while the store is away.
func stricter(p, other *policy.Policy) bool {
	own, others := strictness(p.OnError), strictness(other.OnError)
	return own > others || own == others && p.LocalShare < other.LocalShare
}

func strictness(p store.FailurePolicy) int {
	switch p {
	case store.AllowOnError:
		return 0
	case store.LocalOnError:
		return 1
	case store.DenyOnError:
		return 2
	default: // fail
		return 3
	}
}
