package limiter

import (
	"context"
	"sync"
	"time"
)

// shareRetry is the RetryAfter of a cost that its limit allows and the share of it never
// does. When the store will be back is not known, but asking more often is of no use.
const shareRetry = time.Second

// decideLocally has shadow decide reqs with a share of each limit.
func decideLocally(ctx context.Context, shadow Store, share Share, op Op, reqs []Request, decisions []Decision) error {
	shared := make([]Request, len(reqs))
	copy(shared, reqs)
	for i := range shared {
		r := &shared[i]
		// A share would make valid limits of some that are not.
		if err := r.Normalize(op); err != nil {
			return err
		}
		r.Limit = share.Of(r.Limit)
	}
	for i := range shared {
		if r := &shared[i]; !r.Shadow && r.Cost > r.Limit.Capacity() {
			// The answer is no. The others are looked at, and this one as if it
			// denied nothing, since a store refuses what can never fit.
			r.Shadow, op = true, Peek
		}
	}
	if err := shadow.Decide(ctx, op, shared, decisions); err != nil {
		return err
	}
	for i := range decisions {
		d := &decisions[i]
		d.DecidedBy, d.LocalShare = DecidedByLocal, share
		if d.Shadow != reqs[i].Shadow {
			d.Shadow, d.RetryAfter = false, shareRetry
		}
	}
	return nil
}

// shadowMap is a Store in memory for a shadow, which is used in an outage only. It is
// small where package memorystore is fast.
type shadowMap struct {
	clock func() time.Time

	mu     sync.Mutex
	states map[Key]*State
}

func newShadowMap(clock func() time.Time) *shadowMap {
	if clock == nil {
		clock = time.Now
	}
	return &shadowMap{clock: clock, states: map[Key]*State{}}
}

// sweepForEach is how many keys are looked at for each new one, so that unused ones
// cannot pile up.
const sweepForEach = 4

// Decide implements [Store].
func (s *shadowMap) Decide(_ context.Context, op Op, reqs []Request, decisions []Decision) error {
	normalized, err := NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	now := InstantOf(s.clock())
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]*State, len(normalized))
	for i := range normalized {
		if states[i] = s.states[normalized[i].Key]; states[i] == nil {
			states[i] = &State{}
		}
	}
	if !Decide(op, normalized, states, decisions, now) {
		return nil
	}
	for i := range normalized {
		key := normalized[i].Key
		if _, held := s.states[key]; !held && !states[i].IsZero() {
			s.sweep(now)
			s.states[key] = states[i]
		}
	}
	return nil
}

// sweep removes unused keys among a few that the map yields, which begins anywhere.
func (s *shadowMap) sweep(now Instant) {
	looked := 0
	for key, state := range s.states {
		if state.Used(now) == 0 {
			delete(s.states, key)
		}
		if looked++; looked == sweepForEach {
			return
		}
	}
}

// Close implements [Store].
func (s *shadowMap) Close() error { return nil }
