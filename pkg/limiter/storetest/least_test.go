package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// least is as little as a store can be: Decide and Close.
type least struct {
	clock  func() time.Time
	mu     sync.Mutex
	states map[limiter.Key]*limiter.State
	tokens map[string]limiter.TokenRecord
	closed bool
}

func newLeast(clock func() time.Time) *least {
	if clock == nil {
		clock = time.Now
	}
	return &least{clock: clock, states: map[limiter.Key]*limiter.State{}, tokens: map[string]limiter.TokenRecord{}}
}

func (s *least) Decide(_ context.Context, op limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	reqs, err := limiter.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return limiter.ErrClosed
	}
	states := make([]*limiter.State, len(reqs))
	for i := range reqs {
		if states[i] = s.states[reqs[i].Key]; states[i] == nil {
			states[i] = new(limiter.State)
		}
	}
	now, token := limiter.InstantOf(s.clock()), reqs[0].Token
	var changes limiter.Changes
	if limiter.IsSpecial(op, reqs) {
		record := s.tokens[token]
		if changes, err = limiter.DecideSpecial(op, reqs, states, decisions, &record, now); changes.Token {
			s.tokens[token] = record
		}
	} else {
		changes.States = limiter.Decide(op, reqs, states, decisions, now)
	}
	if err != nil || !changes.States {
		return err
	}
	for i := range reqs {
		s.states[reqs[i].Key] = states[i]
	}
	return nil
}

func (s *least) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// A store of two methods is held to all laws of a decision.
func TestTheLeastStoreConforms(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Sequences: 300,
		New:       func(_ testing.TB, clock func() time.Time) limiter.Store { return newLeast(clock) },
	})
}
