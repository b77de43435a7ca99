package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DecideAll decides several asks at one instant, all or nothing: if one of them is denied, nothing is charged. All
// must have a policy, and the operation of the first. The answers have the indexes of the asks, and contain the
// requests even after an error. The settings of the first ask decide all of them.
//
// Asks with a key in common charge the sum of their costs to it, and get the same decision, which counts once.
//
// A cost that can never fit is a denial, not an error: whoever asks for many at once could not tell which of them is wrong.
// Nothing is charged then, and no time is told after which it fits.
//
// While the store is away, the strictest failure policy of the asks' policies applies to all: fail before deny,
// deny before local, local before allow.
func (e *Engine) DecideAll(ctx context.Context, asks []Ask, answers []decision.Answer) error {
	begun := time.Since(e.start)
	var err error
	if len(asks) == 1 {
		err = e.decide(ctx, &asks[0], &answers[0])
	}
	if len(asks) > 1 || errors.Is(err, store.ErrNeverFits) {
		err = e.decideAll(ctx, asks, answers)
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

func (e *Engine) decideAll(ctx context.Context, asks []Ask, answers []decision.Answer) error {
	inForce, op := e.deciding(&asks[0]).inForce, asks[0].Op
	var strictest *policy.Prepared
	var limits *limiter.Limiter // of the strictest
	requests := make([]store.Request, 0, 2*len(asks))
	places := make([][]int, len(asks)) // the indexes of each ask's requests among all
	for i := range asks {
		p, own := inForce.Of(asks[i].Policy)
		if err := asks[i].requests(p, own, &answers[i]); err != nil {
			return err
		}
		if strictest == nil || stricter(p.Policy, strictest.Policy) {
			strictest, limits = p, own
		}
		first := len(requests)
		for j, request := range answers[i].Requests {
			place := slices.IndexFunc(requests, func(r store.Request) bool {
				return r.Key == request.Key && r.Limit == request.Limit && r.Leave == request.Leave && r.Shadow == request.Shadow
			})
			if place < 0 {
				place, requests = len(requests), append(requests, request)
			} else {
				requests[place].Cost = min(requests[place].Cost+request.Cost, store.MaxCount)
				if place < first {
					answers[i].SetShared(j)
				}
			}
			places[i] = append(places[i], place)
		}
	}
	decisions := make([]store.Decision, len(requests))
	err := limits.Store().Decide(ctx, op, requests, decisions)
	if errors.Is(err, store.ErrNeverFits) {
		neverFits(ctx, limits.Store(), op, requests, decisions)
		e.countDenials(&asks[0], requests, decisions)
	} else if err != nil {
		return err
	}
	for i := range answers {
		answers[i].Decisions = make([]store.Decision, len(places[i]))
		for j, place := range places[i] {
			answers[i].Requests[j], answers[i].Decisions[j] = requests[place], decisions[place]
		}
	}
	return nil
}

// neverFits fills in decisions about requests that can never be allowed together: what is left, and a denial of those that alone
// never fit. If there is none, only their sum does not, or an override: then all are denied.
func neverFits(ctx context.Context, backend store.Store, op store.Op, requests []store.Request, decisions []store.Decision) {
	all := !slices.ContainsFunc(requests, func(r store.Request) bool { return r.NeverFits(op) })
	peeks, never := slices.Clone(requests), make([]bool, len(requests))
	for i := range peeks {
		if r := &peeks[i]; !r.Shadow && (all || r.NeverFits(op)) {
			never[i], r.Shadow, r.Cost = true, true, 1
		}
	}
	err := backend.Decide(ctx, store.Peek, peeks, decisions)
	for i := range decisions {
		d := &decisions[i]
		if err != nil || never[i] && d.Unguarded {
			*d = store.Decision{Allowed: true, Unguarded: !never[i], Shadow: requests[i].Shadow}
		}
		if d.RetryAfter = 0; never[i] {
			d.Allowed, d.Shadow, d.Delay = false, false, 0
		}
	}
}

// stricter reports whether p lets less through than other while the store is away.
func stricter(p, other *policy.Policy) bool {
	order := [...]store.FailurePolicy{store.AllowOnError, store.LocalOnError, store.DenyOnError, store.FailOnError}
	own, others := slices.Index(order[:], p.OnError), slices.Index(order[:], other.OnError)
	return own > others || own == others && p.LocalShare < other.LocalShare
}
