package layers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Breaker says when [WithBreaker] stops asking a store that is away, and when it tries
// again. A zero field stands for its default.
type Breaker struct {
	// Failures in a row open the breaker; 5 unless said. A failure is an error that
	// [store.IsAway] accepts, or an answer that took longer than Slow. A denial, or a refusal
	// such as a wrong password, is an answer. An invalid request, or a caller that gave
	// up in less time, says nothing about the store.
	Failures int
	// Slow is how long an answer may take; 1 s unless said. Let it be less than the time
	// that your callers have: a caller that gives up before says nothing about the store.
	Slow time.Duration
	// Pause is how long nothing is asked once the breaker is open; 500 ms unless
	// said. It doubles with each try that fails, up to MaxPause, 10 s unless said.
	Pause, MaxPause time.Duration
	// Clock is the time; time.Now unless said.
	Clock func() time.Time
	// OnChange, if set, is told of each change of state, one after the other and in order.
	// It must not call the store.
	OnChange func(BreakerChange)
}

// BreakerState is what a breaker does with calls.
type BreakerState uint8

const (
	// BreakerClosed: calls go to the store.
	BreakerClosed BreakerState = iota
	// BreakerOpen: calls fail at once.
	BreakerOpen
	// BreakerHalfOpen: calls fail at once, while one probe asks the store.
	BreakerHalfOpen
)

// String returns "closed", "open" or "half-open".
func (s BreakerState) String() string {
	switch s {
	case BreakerOpen:
		return "open"
	case BreakerHalfOpen:
		return "half-open"
	default:
		return "closed"
	}
}

// BreakerChange is one change of a breaker's state.
type BreakerChange struct {
	// Part is the part of a [store.Parted] store that it is about, empty if the store is in one
	// piece. A part that the store has no more is told of as closed.
	Part     string
	From, To BreakerState
	At       time.Time
	// Reason is what opened the breaker, or kept it open; nil otherwise.
	Reason error
}

// WithBreaker wraps backend so that, once it is away, calls fail at once with a
// [store.ErrUnavailable] that says "circuit open since …", instead of each after its own
// time-out. Nothing is charged then.
//
// After a pause the next call makes the breaker ask the store in the background, by a
// peek at the same keys. No caller waits for that, and there is one such probe at a time,
// however many calls come. If the store answers, the breaker closes. Until a call has
// gone well after that, one failure is enough to open it again, for twice the last pause:
// a store can answer peeks and not takes.
//
// A store that is [store.Parted], such as a Redis Cluster, has a breaker for each part: one that
// is away fails the calls of its own keys, and no others. A call over several parts needs
// all of them. Its failure counts for the part that the error names, see [store.PartError], and
// for none if that is not known, nor does it count when such a call is slow.
func WithBreaker(backend store.Store, settings Breaker) store.Store {
	s := &breakerStore{Store: backend, Breaker: settings.WithDefaults()}
	s.parted, _ = store.As[store.Parted](backend)
	s.whole.init(s, "")
	s.parts.Store(&map[string]*circuit{})
	return store.Wrap(s, backend)
}

// WithDefaults returns b with its zero fields filled in. A MaxPause below Pause is taken
// for it.
func (b Breaker) WithDefaults() Breaker {
	orElse := func(value *time.Duration, unlessSaid time.Duration) {
		if *value <= 0 {
			*value = unlessSaid
		}
	}
	orElse(&b.Slow, time.Second)
	orElse(&b.Pause, 500*time.Millisecond)
	orElse(&b.MaxPause, 10*time.Second)
	b.MaxPause = max(b.MaxPause, b.Pause)
	if b.Failures <= 0 {
		b.Failures = 5
	}
	if b.Clock == nil {
		b.Clock = time.Now
	}
	return b
}

// breakerStore lets calls through to a store, or not. What it knows of each part of the store
// is a circuit.
type breakerStore struct {
	store.Store
	Breaker

	parted store.Parted // nil if the store is in one piece
	whole  circuit      // for keys whose part has no name
	parts  atomic.Pointer[map[string]*circuit]

	mu sync.Mutex // for all circuits, so that their changes are told one after the other
}

// Decide implements [store.Store].
func (s *breakerStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	c := &s.whole
	if s.parted != nil && len(reqs) > 0 {
		part := s.parted.Part(reqs[0].Key)
		for i := 1; i < len(reqs); i++ {
			if s.parted.Part(reqs[i].Key) != part {
				return s.decideAcross(ctx, op, reqs, decisions)
			}
		}
		c = s.circuitOf(part, reqs[0].Key)
	}
	epoch := c.epoch.Load()
	if epoch%2 != 0 {
		return s.refuse(ctx, c, op, reqs)
	}
	begun := s.Clock()
	err := s.Store.Decide(ctx, op, reqs, decisions)
	c.judge(err, s.Clock().Sub(begun), epoch, reqs)
	return err
}

// refuse says why c does not let a call through, and has its part probed if it is time.
func (s *breakerStore) refuse(ctx context.Context, c *circuit, op store.Op, reqs []store.Request) error {
	// A mistake is told as one, and is not what the store is probed with.
	probe, err := store.NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := c.refusal
	c.tryAgain(probe)
	if err := store.GaveUp(ctx); err != nil {
		return err // as the store would say: the caller's time was over first
	}
	return refusal
}

// probe asks the store without changing anything, and without need for room.
func (s *breakerStore) probe(reqs []store.Request) error {
	for i := range reqs {
		reqs[i] = store.Request{Key: reqs[i].Key, Limit: reqs[i].Limit, Cost: 1}
	}
	answered := make(chan error, 1)
	panics.Go(func() error {
		ctx, cancel := store.BudgetContext(context.Background(), s.Slow)
		defer cancel()
		return s.Store.Decide(ctx, store.Peek, reqs, make([]store.Decision, len(reqs)))
	}, func(err error) { answered <- err })
	enough := time.NewTimer(probePatience * s.Slow) // a store that does not heed its context must not keep the breaker
	defer enough.Stop()
	select {
	case err := <-answered:
		return err
	case <-enough.C:
		return fmt.Errorf("%w: a probe was not answered within %s", store.ErrUnavailable, probePatience*s.Slow)
	}
}

// probePatience is how many times as long as its time a probe is waited for.
const probePatience = 2
