package storetest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// least is a minimal store: Decide and Close.
type least struct {
	clock  func() time.Time
	mu     sync.Mutex
	states map[store.Key]*store.State
	tokens map[string]store.TokenRecord
	closed bool
}

func newLeast(clock func() time.Time) *least {
	if clock == nil {
		clock = time.Now
	}
	return &least{clock: clock, states: map[store.Key]*store.State{}, tokens: map[string]store.TokenRecord{}}
}

func (s *least) Decide(_ context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	reqs, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	states := make([]*store.State, len(reqs))
	for i := range reqs {
		if states[i] = s.states[reqs[i].Key]; states[i] == nil {
			states[i] = new(store.State)
		}
	}
	now, token := store.InstantOf(s.clock()), reqs[0].Token
	record := s.tokens[token]
	changes, err := store.Decide(op, reqs, states, decisions, &record, now)
	if changes.Token {
		s.tokens[token] = record
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

// A store of two methods has to keep all laws of a decision.
func TestTheLeastStoreConforms(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Sequences: 300,
		New:       func(_ testing.TB, clock func() time.Time) store.Store { return newLeast(clock) },
	})
}
