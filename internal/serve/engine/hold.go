package engine

import (
	"context"
	"errors"
	"time"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// heldCall is a call that is decided in the order of those who wait for the same keys.
type heldCall struct {
	store store.Store   // of the settings that decide it, even if others are in force before its turn
	took  time.Duration // by the store, without the wait
}

type heldKey struct{}

// heldStore decides each call by its own store, so that there is one order before and after a reload. It does not end
// with the caller, so that it is known what to give back.
type heldStore struct{}

// Decide implements [store.Store].
func (heldStore) Decide(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	h, begun := ctx.Value(heldKey{}).(*heldCall), time.Now()
	defer func() { h.took += time.Since(begun) }()
	return h.store.Decide(context.WithoutCancel(ctx), op, requests, decisions)
}

// Close implements [store.Store].
func (heldStore) Close() error { return nil }

// decideHeld is Decide for an ask whose policy has a wait, for which it holds the ask. One whose turn does not come in
// time is denied, at once if that is known. If the server stops, all are decided at once.
func (e *Engine) decideHeld(ctx context.Context, ask *Ask, answer *decision.Answer) error {
	p, limits := ask.Settings.inForce.Of(ask.Policy)
	err := ask.requests(p, limits, answer)
	h := &heldCall{store: limits.Store()}
	if err == nil {
		answer.Decisions, err = e.take(context.WithValue(ctx, heldKey{}, h), ask, answer, p.Wait)
	}
	if e.options.OnDecision != nil {
		e.options.OnDecision(ask, answer, err, h.took)
	}
	return err
}

// take takes what the answer's requests say, and returns what its caller sees.
func (e *Engine) take(
	ctx context.Context, ask *Ask, answer *decision.Answer, wait time.Duration,
) (decisions []store.Decision, err error) {
	stopped := !ask.Hold || e.options.Stops.Err() != nil
	if !stopped {
		until, release := context.WithCancel(ctx)
		defer release()
		defer context.AfterFunc(e.options.Stops, release)()
		decisions, err = e.turns.TakeWithin(until, wait, answer.Requests...)
		stopped = ctx.Err() == nil && errors.Is(err, store.ErrGaveUp) && !errors.Is(err, store.ErrOutcomeUnknown) &&
			!errors.Is(err, layers.ErrNotGivenBack)
	}
	if stopped {
		decisions, err = e.turns.TakeWithin(ctx, 0, answer.Requests...)
	}
	if err != nil || store.AllAllowed(decisions) {
		return decisions, err
	}
	if decisions[0].At == 0 {
		e.describe(ctx, answer.Requests, decisions)
	}
	if e.denials != nil && !ask.Settings.NoDenials {
		e.denials.See(answer.Requests, decisions)
	}
	return decisions, nil
}

// describe completes a denial because of others who wait, which says only when to try again, by what is in use.
func (e *Engine) describe(ctx context.Context, requests []store.Request, denial []store.Decision) {
	now := make([]store.Decision, len(requests))
	if e.turns.Store.Decide(ctx, store.Peek, requests, now) != nil {
		return
	}
	for i := range denial {
		if behind := denial[i]; !behind.Unguarded {
			now[i].Allowed, now[i].Remaining, now[i].Delay = false, 0, 0
			now[i].RetryAfter = max(now[i].RetryAfter, behind.RetryAfter)
		}
	}
	copy(denial, now)
}
