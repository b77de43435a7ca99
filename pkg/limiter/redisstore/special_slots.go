package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// decideSpecialAcrossSlots decides groups one after the other, as decideAcrossSlots does.
//
// Each slot remembers what it charged for a token, and which attempt of the caller's
// answers for that: the last one that came by. What a call gives back is only what its own
// attempt answers for, so that a call which was cut off and still gives back cannot take
// away what the caller, asking again, was granted meanwhile.
func (s *Store) decideSpecialAcrossSlots(ctx context.Context, op store.Op, groups [][]int, reqs []store.Request,
	decisions []store.Decision) error {
	var attempt uint64
	charges := op == store.Take || op == store.Charge
	if charges && reqs[0].Token != "" {
		attempt = rand.Uint64() | 1
	}
	for n, group := range groups {
		err := s.decideSpecialGroup(ctx, op, attempt, group, reqs, decisions)
		switch {
		case err != nil && charges:
			// What an earlier call charged stays: it may have been all that was asked.
			back := slices.DeleteFunc(slices.Clone(groups[:n]), func(group []int) bool { return decisions[group[0]].Repeated })
			if undoErr := s.undo(ctx, back, attempt, reqs, decisions); undoErr != nil {
				return &unknownOutcome{fmt.Errorf("%w; %w", undoErr, err)}
			}
			return err
		case err != nil && op != store.Peek && n > 0:
			return &unknownOutcome{fmt.Errorf("the %s was done for %d of %d slots, then: %w", op, n, len(groups), err)}
		case err != nil:
			return err
		case op == store.Take && !allowedIn(group, decisions):
			if err := s.undo(ctx, groups[:n], attempt, reqs, decisions); err != nil {
				return &unknownOutcome{err}
			}
			// An earlier call may have come as far as the slots after this one.
			if err := s.undo(ctx, groups[n+1:], 0, reqs, decisions); errors.Is(err, store.ErrInvalid) {
				return err
			} else if err != nil && !store.IsAway(err) { // that one of them is away makes it no less denied
				return &unknownOutcome{err}
			}
			return s.peekLater(ctx, groups[n+1:], withoutToken(reqs), decisions)
		}
	}
	return nil
}

func (s *Store) decideSpecialGroup(ctx context.Context, op store.Op, attempt uint64, group []int, reqs []store.Request,
	decisions []store.Decision) error {
	return ofGroup(group, reqs, decisions, func(part []store.Request, answers []store.Decision) error {
		return s.decideSpecialTogether(ctx, op, attempt, part, answers)
	})
}

// giveBackToken gives back what attempt charged to a group under its token, and forgets that. Attempt 0
// stands for any.
func (s *Store) giveBackToken(ctx context.Context, attempt uint64, group []int, reqs []store.Request,
	decisions []store.Decision) error {
	taken := slices.Clone(decisions)
	err := s.decideSpecialGroup(ctx, store.Refund, attempt, group, reqs, decisions)
	for _, i := range group {
		if !taken[i].Allowed { // a shadow that did not fit, and was not charged
			decisions[i] = taken[i]
		}
	}
	return err
}

func withoutToken(reqs []store.Request) []store.Request {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Token = ""
	}
	return reqs
}
