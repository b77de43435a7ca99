package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// Breaker says when [WithBreaker] stops asking a store that is away, and when it tries
// again. A zero field stands for its default.
type Breaker struct {
	// Failures in a row open the breaker; 5 unless said. A failure is an error that
	// [IsAway] accepts, or an answer that took longer than Slow. A denial, or a refusal
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
	// OnChange, if set, is told of each change of state, in order. It must not call
	// the store.
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
	From, To BreakerState
	At       time.Time
	// Reason is what opened the breaker, or kept it open; nil otherwise.
	Reason error
}

// WithBreaker wraps store so that, once it is away, calls fail at once with an
// [ErrUnavailable] that says "circuit open since …", instead of each after its own
// time-out. Nothing is charged then.
//
// After a pause the next call makes the breaker ask the store in the background, by a
// peek at the same keys. No caller waits for that, and there is one such probe at a time,
// however many calls come. If the store answers, the breaker closes. Until a call has
// gone well after that, one failure is enough to open it again, for twice the last pause:
// a store can answer peeks and not takes.
func WithBreaker(store Store, settings Breaker) Store {
	s := &breakerStore{Store: store, Breaker: settings.WithDefaults()}
	s.well.Store(true)
	return KeepKeyspace(s, store)
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

type breakerStore struct {
	Store
	Breaker

	// epoch counts the changes between letting calls through and not: they go through
	// while it is even. Calls of an earlier epoch say nothing about this one.
	epoch atomic.Int64
	// well: calls go through, and none has failed since the last that went well. Then a
	// call that goes well takes no lock.
	well atomic.Bool

	mu       sync.Mutex
	state    BreakerState
	failures int           // in a row, while closed
	since    time.Time     // when it last was closed
	pause    time.Duration // from the last failure to the next try
	next     time.Time     // when that may begin
	refusal  error         // for calls while it is not closed
}

// Decide implements [Store].
func (s *breakerStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	epoch := s.epoch.Load()
	if epoch%2 != 0 {
		return s.refuse(ctx, op, reqs)
	}
	begun := s.Clock()
	err := s.Store.Decide(ctx, op, reqs, decisions)
	s.judge(err, s.Clock().Sub(begun), epoch)
	return err
}

// refuse says why the store is not asked, and has it probed if it is time.
func (s *breakerStore) refuse(ctx context.Context, op Op, reqs []Request) error {
	// A mistake is told as one, and is not what the store is probed with.
	probe, err := NormalizeAll(nil, op, reqs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := s.refusal
	if s.state == BreakerOpen && !s.Clock().Before(s.next) {
		s.change(BreakerHalfOpen, nil)
		panics.Go(func() error { return s.probe(probe) }, s.probed)
	}
	if err := GaveUp(ctx); err != nil {
		return err // as the store would say: the caller's time was over first
	}
	return refusal
}

// probe asks the store without changing anything, and without need for room.
func (s *breakerStore) probe(reqs []Request) error {
	for i := range reqs {
		reqs[i] = Request{Key: reqs[i].Key, Limit: reqs[i].Limit, Cost: 1}
	}
	ctx, cancel := BudgetContext(context.Background(), s.Slow)
	defer cancel()
	return s.Store.Decide(ctx, Peek, reqs, make([]Decision, len(reqs)))
}

// probed takes the answer to a probe.
func (s *breakerStore) probed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if IsAway(err) {
		s.open(err)
		return
	}
	s.failures = s.Failures - 1 // a refusal is an answer, too
	s.epoch.Add(1)              // before it is told, so that who hears of it is let through
	s.change(BreakerClosed, nil)
}

// judge takes what came of a call that began in an epoch.
func (s *breakerStore) judge(err error, took time.Duration, epoch int64) {
	slow := took > s.Slow
	if err == nil && !slow && s.well.Load() {
		return
	}
	failed := IsAway(err) || slow
	if !failed && (errors.Is(err, ErrGaveUp) || errors.Is(err, ErrInvalid)) {
		return // it says nothing about the store
	}
	if err == nil && slow {
		err = fmt.Errorf("an answer took %s", took.Round(time.Millisecond))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case epoch != s.epoch.Load(): // it began before the breaker opened
	case !failed:
		s.failures, s.pause = 0, 0
		s.well.Store(true)
	default:
		s.well.Store(false)
		if s.failures++; s.failures >= s.Failures {
			s.since = s.Clock()
			s.open(err)
			s.epoch.Add(1)
		}
	}
}

// open opens the breaker, or keeps it open for longer. The caller holds the lock.
func (s *breakerStore) open(reason error) {
	s.pause = min(max(s.Pause, 2*s.pause), s.MaxPause)
	s.next = s.Clock().Add(s.pause)
	// The kind of the reason, such as an unknown outcome, is another call's.
	s.refusal = fmt.Errorf("%w (circuit open since %s); the last error was: %s", ErrUnavailable, s.since.Format("15:04:05"), reason)
	s.change(BreakerOpen, reason)
}

// change tells of a state. The caller holds the lock, so that changes are told in order.
func (s *breakerStore) change(to BreakerState, reason error) {
	from := s.state
	s.state = to
	if s.OnChange != nil {
		s.OnChange(BreakerChange{From: from, To: to, At: s.Clock(), Reason: reason})
	}
}
