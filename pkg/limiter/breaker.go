package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// Breaker says when [WithBreaker] stops asking a store that is away, and when it tries
// again. A zero field stands for its default.
type Breaker struct {
	// Failures in a row open the breaker; 5 unless said. A failure is an error that
	// [IsAway] accepts, or an answer that took longer than Slow. A denial, a refusal
	// such as a wrong password, or a caller that gave up in less time says nothing
	// about the store.
	Failures int
	// Slow is how long an answer may take; 1 s unless said.
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
	// BreakerHalfOpen: the store has answered a question again. One call goes to it,
	// and decides whether the breaker closes. Others fail at once.
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
// time-out. Nothing is charged then. After a pause the next call makes the breaker ask
// the store in the background, by a peek at the same keys; no caller waits for that. The
// first answer lets one call through, and if that is well the breaker closes.
func WithBreaker(store Store, settings Breaker) Store {
	orElse := func(value *time.Duration, unlessSaid time.Duration) {
		if *value <= 0 {
			*value = unlessSaid
		}
	}
	orElse(&settings.Slow, time.Second)
	orElse(&settings.Pause, 500*time.Millisecond)
	orElse(&settings.MaxPause, 10*time.Second)
	if settings.Failures <= 0 {
		settings.Failures = 5
	}
	if settings.Clock == nil {
		settings.Clock = time.Now
	}
	return KeepKeyspace(&breakerStore{Store: store, Breaker: settings}, store)
}

type breakerStore struct {
	Store
	Breaker

	mu       sync.Mutex
	state    BreakerState
	failures int           // in a row, while closed
	since    time.Time     // when it last was closed
	pause    time.Duration // from the last failure to the next try
	next     time.Time     // when that may begin
	trying   bool          // a probe, or the one call of a half-open breaker, is under way
	reason   error         // the last failure
}

// Decide implements [Store].
func (s *breakerStore) Decide(ctx context.Context, op Op, reqs []Request, decisions []Decision) error {
	trial, err := s.admit(reqs)
	if err != nil {
		return err
	}
	begun := s.Clock()
	err = panics.Call(func() error { return s.Store.Decide(ctx, op, reqs, decisions) })
	s.judge(err, s.Clock().Sub(begun), trial)
	return err
}

// admit lets a call through, or says why not. trial says that it is the one call of a
// half-open breaker.
func (s *breakerStore) admit(reqs []Request) (trial bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == BreakerClosed:
		return false, nil
	case s.state == BreakerHalfOpen && !s.trying:
		s.trying = true
		return true, nil
	case s.state == BreakerOpen && !s.trying && !s.Clock().Before(s.next):
		s.trying = true
		probe := slices.Clone(reqs) // the caller does not wait for it
		panics.Go(func() error { return s.probe(probe) }, s.probed)
	}
	// The reason's own kind, such as an unknown outcome, was another call's.
	return false, fmt.Errorf("%w (circuit open since %s): %s", ErrUnavailable, s.since.Format("15:04:05"), s.reason)
}

// probe asks the store without changing anything.
func (s *breakerStore) probe(reqs []Request) error {
	ctx, cancel := BudgetContext(context.Background(), s.Slow)
	defer cancel()
	return s.Store.Decide(ctx, Peek, reqs, make([]Decision, len(reqs)))
}

// probed takes the answer to a probe.
func (s *breakerStore) probed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = false
	if IsAway(err) {
		s.open(err)
	} else {
		s.change(BreakerHalfOpen, nil) // a refusal is an answer, too
	}
}

// judge takes what came of a call.
func (s *breakerStore) judge(err error, took time.Duration, trial bool) {
	slow := took > s.Slow
	failed := IsAway(err) || slow
	if err == nil && slow {
		err = fmt.Errorf("an answer took %s", took.Round(time.Millisecond))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if trial {
		s.trying = false
	}
	switch {
	case errors.Is(err, ErrGaveUp) && !failed: // it says nothing about the store
	case s.state == BreakerClosed && !failed:
		s.failures = 0
	case s.state == BreakerClosed:
		if s.failures++; s.failures >= s.Failures {
			s.since = s.Clock()
			s.open(err)
		}
	case trial && failed:
		s.open(err)
	case trial:
		s.failures, s.pause = 0, 0
		s.change(BreakerClosed, nil)
	}
	// What else ends now had begun before the breaker opened.
}

// open opens the breaker, or keeps it open for longer. The caller holds the lock.
func (s *breakerStore) open(reason error) {
	s.reason = reason
	s.pause = min(max(s.Pause, 2*s.pause), s.MaxPause)
	s.next = s.Clock().Add(s.pause)
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
