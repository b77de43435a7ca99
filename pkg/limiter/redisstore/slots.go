package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// groupBySlot returns the indexes of reqs that share a slot, in the order in which the slots first come. Slots of
// shadows alone come last: they deny nothing, so nothing taken from them need be given back.
func groupBySlot(reqs []store.Request) [][]int {
	var groups [][]int
	bySlot := map[int]int{}
	for i := range reqs {
		slot := redisserver.SlotOf(reqs[i].Key.Subject)
		group, known := bySlot[slot]
		if !known {
			group = len(groups)
			bySlot[slot] = group
			groups = append(groups, nil)
		}
		groups[group] = append(groups[group], i)
	}
	onlyShadows := func(group []int) int {
		for _, i := range group {
			if !reqs[i].Shadow {
				return 0
			}
		}
		return 1
	}
	slices.SortStableFunc(groups, func(a, b []int) int { return onlyShadows(a) - onlyShadows(b) })
	return groups
}

// giveBackTimeout bounds the giving back of what was taken, which goes on when the caller gives up.
const giveBackTimeout = 5 * time.Second

// giveBackGrace is how long a caller whose time is over still waits for that, since it is
// better to know the outcome than to be on time to the millisecond.
const giveBackGrace = 20 * time.Millisecond

// decideAcrossSlots decides groups one after the other, each atomically. A take ends at the first group that denies or
// fails; what earlier ones charged is given back, and later ones are only peeked at, so that the answer is complete.
//
// Each slot remembers what it charged for a token, and the latest attempt of the caller, which answers for that. A call
// gives back only what its own attempt answers for: one that was cut off cannot remove what a later one was granted.
func (s *Store) decideAcrossSlots(ctx context.Context, op store.Op, groups [][]int, reqs []store.Request,
	decisions []store.Decision) error {
	var attempt uint64
	charges, hasToken := op == store.Take || op == store.Charge, reqs[0].Token != ""
	if charges && hasToken {
		attempt = rand.Uint64() | 1
	}
	for n, group := range groups {
		err := s.decideGroup(ctx, op, attempt, group, reqs, decisions)
		switch {
		case err != nil && charges:
			// What an earlier call charged stays: it may have been all that was asked.
			back := slices.DeleteFunc(slices.Clone(groups[:n]), func(group []int) bool {
				return decisions[group[0]].Repeated
			})
			if backErr := s.giveBackFor(ctx, back, attempt, reqs, decisions); backErr != nil {
				return &unknownOutcome{fmt.Errorf("%w; %w", backErr, err)}
			}
			return err
		case err != nil && op != store.Peek && n > 0:
			return &unknownOutcome{fmt.Errorf("the %s was done for %d of %d slots, then: %w", op, n, len(groups), err)}
		case err != nil:
			return err
		case op == store.Take && !allowedIn(group, decisions):
			if err := s.giveBackFor(ctx, groups[:n], attempt, reqs, decisions); err != nil {
				return &unknownOutcome{err}
			}
			if hasToken { // an earlier call may have come as far as the slots after this one
				if err := s.giveBackFor(ctx, groups[n+1:], 0, reqs, decisions); errors.Is(err, store.ErrInvalid) {
					return err
				} else if err != nil && !store.IsAway(err) { // that one of them is away makes it no less denied
					return &unknownOutcome{err}
				}
				reqs = withoutToken(reqs)
			}
			return s.peekLater(ctx, groups[n+1:], reqs, decisions)
		}
	}
	return nil
}

// peekLater completes the answer of a denied take by what the groups after the one
// that denied would have said. That one of them is away makes it no less denied.
func (s *Store) peekLater(ctx context.Context, groups [][]int, reqs []store.Request, decisions []store.Decision) error {
	for _, group := range groups {
		err := s.decideGroup(ctx, store.Peek, 0, group, reqs, decisions)
		if err != nil && !store.IsAway(err) {
			return err
		}
		for _, i := range group {
			if err != nil {
				decisions[i] = store.Decision{Allowed: true, Shadow: reqs[i].Shadow, Unguarded: true}
			}
		}
	}
	return nil
}

// decideGroup decides the requests of a group, and puts the answers to their places. attempt is not zero for a token.
func (s *Store) decideGroup(ctx context.Context, op store.Op, attempt uint64, group []int, reqs []store.Request,
	decisions []store.Decision) error {
	w, answers := s.lanes.NewWork(), make([]store.Decision, len(group))
	w.Reqs, w.Attempt = w.Reqs[:0], attempt
	for _, i := range group {
		w.Reqs = append(w.Reqs, reqs[i])
	}
	err := s.lanes.Decide(ctx, op, w, answers)
	for n, i := range group {
		decisions[i] = answers[n]
	}
	return err
}

func allowedIn(group []int, decisions []store.Decision) bool {
	for _, i := range group {
		if !decisions[i].Allowed && !decisions[i].Shadow {
			return false
		}
	}
	return true
}

// giveBackFor gives back what a caller took from groups, as giveBack says, and waits for that as
// long as ctx lasts. It goes on when the caller leaves.
func (s *Store) giveBackFor(ctx context.Context, groups [][]int, attempt uint64, reqs []store.Request,
	decisions []store.Decision) error {
	back, cancel := store.BudgetContext(context.WithoutCancel(ctx), giveBackTimeout)
	reqs, given := slices.Clone(reqs), slices.Clone(decisions) // the caller's are its own again when it leaves
	done := make(chan error, 1)
	s.givingBack.RLock()
	panics.Go(func() error { return s.giveBack(back, groups, attempt, reqs, given) }, func(err error) {
		cancel()
		done <- err
		s.givingBack.RUnlock()
	})
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(giveBackGrace):
			return fmt.Errorf("what was taken is still being given back: %w",
				cmp.Or(store.GaveUp(ctx), errors.New("no answer in time")))
		}
	}
	copy(decisions, given)
	return err
}

// giveBack refunds what was taken from groups, the last group first, and sets their decisions to the states after
// that. It goes on after an error, so that as little as possible stays charged. A refund removes the newest units:
// after the end of a window these are units of other calls (see ARCHITECTURE.md). With a token it gives back
// what attempt charged under it, and forgets that. Attempt 0 stands for any.
func (s *Store) giveBack(ctx context.Context, groups [][]int, attempt uint64, reqs []store.Request,
	decisions []store.Decision) error {
	var failed error
	for _, group := range slices.Backward(groups) {
		taken := slices.Clone(decisions)
		if reqs[0].Token == "" { // a shadow that did not fit was not charged
			group = slices.DeleteFunc(slices.Clone(group), func(i int) bool { return !taken[i].Allowed })
		}
		if len(group) == 0 {
			continue
		}
		if err := s.decideGroup(ctx, store.Refund, attempt, group, reqs, decisions); err != nil {
			err = fmt.Errorf("what was taken of %q could not be given back: %w", reqs[group[0]].Key.String(), err)
			if failed != nil {
				err = fmt.Errorf("%w; %w", failed, err)
			}
			failed = err
		}
		for _, i := range group {
			if !taken[i].Allowed {
				decisions[i] = taken[i]
			} else {
				decisions[i].Delay = taken[i].Delay // it would have been allowed so
			}
		}
	}
	return failed
}

func withoutToken(reqs []store.Request) []store.Request {
	reqs = slices.Clone(reqs)
	for i := range reqs {
		reqs[i].Token = ""
	}
	return reqs
}

// unknownOutcome is a [store.ErrOutcomeUnknown] and hides the kind of its cause, which can say that its call charged
// nothing: another call may be charged.
type unknownOutcome struct{ cause error }

func (e *unknownOutcome) Error() string {
	return store.ErrOutcomeUnknown.Error() + ": " + e.cause.Error()
}

// Is stands in for Unwrap, which would let the kinds of the cause through.
func (e *unknownOutcome) Is(target error) bool {
	switch target {
	case store.ErrOutcomeUnknown:
		return true
	case store.ErrUnavailable, store.ErrRefused, store.ErrForeign:
		return false
	}
	return errors.Is(e.cause, target)
}

// As finds the details in the cause.
func (e *unknownOutcome) As(target any) bool { return errors.As(e.cause, target) }
