package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// groupBySlot returns the indexes of reqs that share a slot, in the order in which
// the slots first come. Slots of shadows alone come last: they deny nothing, so
// nothing taken from them need be given back.
func groupBySlot(slotOf func(subject string) int, reqs []store.Request) [][]int {
	var groups [][]int
	bySlot := map[int]int{}
	for i := range reqs {
		slot := slotOf(reqs[i].Key.Subject)
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

// undoTimeout bounds the giving back of what was taken, which goes on when the
// caller gives up.
const undoTimeout = 5 * time.Second

// undoGrace is how long a caller whose time is over still waits for that, since it is
// better to know the outcome than to be on time to the millisecond.
const undoGrace = 20 * time.Millisecond

// decideAcrossSlots decides groups one after the other, each atomically. A take
// ends at the first group that denies or fails; what earlier ones charged is given
// back, and later ones are only peeked at, so that the answer is complete.
func (s *Store) decideAcrossSlots(ctx context.Context, op store.Op, groups [][]int, reqs []store.Request,
	decisions []store.Decision) error {
	for n, group := range groups {
		err := s.decideGroup(ctx, op, group, reqs, decisions)
		switch {
		case err != nil && op == store.Take:
			if undoErr := s.undo(ctx, groups[:n], 0, reqs, decisions); undoErr != nil {
				return &unknownOutcome{fmt.Errorf("%w; %w", undoErr, err)}
			}
			return err
		case err != nil && op != store.Peek && n > 0:
			return &unknownOutcome{fmt.Errorf("the %s was done for %d of %d slots, then: %w", op, n, len(groups), err)}
		case err != nil:
			return err
		case op == store.Take && !allowedIn(group, decisions):
			if err := s.undo(ctx, groups[:n], 0, reqs, decisions); err != nil {
				return &unknownOutcome{err}
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
		err := s.decideGroup(ctx, store.Peek, group, reqs, decisions)
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

func (s *Store) decideGroup(ctx context.Context, op store.Op, group []int, reqs []store.Request, decisions []store.Decision) error {
	return ofGroup(group, reqs, decisions, func(part []store.Request, answers []store.Decision) error {
		return s.decideTogether(ctx, op, part, answers)
	})
}

// ofGroup has decide answer the requests of a group, and puts the answers to their places.
func ofGroup(group []int, reqs []store.Request, decisions []store.Decision,
	decide func(part []store.Request, answers []store.Decision) error) error {
	part, answers := make([]store.Request, len(group)), make([]store.Decision, len(group))
	for n, i := range group {
		part[n] = reqs[i]
	}
	err := decide(part, answers)
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

// undo gives back what was taken from groups, as giveBack says, and waits for that as
// long as ctx lasts. It goes on when the caller leaves.
func (s *Store) undo(ctx context.Context, groups [][]int, attempt uint64, reqs []store.Request, decisions []store.Decision) error {
	back, cancel := store.BudgetContext(context.WithoutCancel(ctx), undoTimeout)
	reqs, given := slices.Clone(reqs), slices.Clone(decisions) // the caller's are its own again when it leaves
	done := make(chan error, 1)
	s.undoing.Go(func() error { return s.giveBack(back, groups, attempt, reqs, given) }, func(err error) {
		cancel()
		done <- err
	})
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(undoGrace):
			return fmt.Errorf("what was taken is still being given back: %w", cmp.Or(store.GaveUp(ctx), errors.New("no answer in time")))
		}
	}
	copy(decisions, given)
	return err
}

// giveBack gives back what was taken from groups, the last first, and lets their
// decisions describe that. It goes on after an error, to leave as little as can
// be. A refund takes the newest units: across the end of a window those are others'
// (see docs/design/redis-store.md). What was taken with a token is given back as giveBackToken says.
func (s *Store) giveBack(ctx context.Context, groups [][]int, attempt uint64, reqs []store.Request,
	decisions []store.Decision) error {
	var failed error
	for n := len(groups) - 1; n >= 0; n-- {
		giveBack := func() error { return s.giveBackToken(ctx, attempt, groups[n], reqs, decisions) }
		var charged []int // a shadow that did not fit was not
		for _, i := range groups[n] {
			if decisions[i].Allowed {
				charged = append(charged, i)
			}
		}
		if reqs[0].Token == "" {
			giveBack = func() error { return s.decideGroup(ctx, store.Refund, charged, reqs, decisions) }
			if len(charged) == 0 {
				continue
			}
		}
		taken := slices.Clone(decisions)
		if err := giveBack(); err != nil {
			err = fmt.Errorf("what was taken of %q could not be given back: %w", reqs[groups[n][0]].Key.String(), err)
			if failed != nil {
				err = fmt.Errorf("%w; %w", failed, err)
			}
			failed = err
		}
		for _, i := range charged {
			decisions[i].Delay = taken[i].Delay // it would have been allowed so
		}
	}
	return failed
}

// unknownOutcome is a [store.ErrOutcomeUnknown] whatever its cause is. A cause that
// charged nothing is not what the caller should go by when something else may be
// charged, so it is of no other kind.
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
