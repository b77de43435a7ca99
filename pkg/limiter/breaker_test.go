package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// sickStore answers as err says, after took of a virtual time.
type sickStore struct {
	mu    sync.Mutex
	now   time.Time
	err   error
	took  time.Duration
	calls map[limiter.Op]int
	hold  chan struct{} // if set, an answer waits for it
}

func (s *sickStore) Decide(_ context.Context, op limiter.Op, _ []limiter.Request, decisions []limiter.Decision) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[limiter.Op]int{}
	}
	s.calls[op]++
	s.now = s.now.Add(s.took)
	hold, err := s.hold, s.err
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	for i := range decisions {
		decisions[i] = limiter.Decision{} // a denial
	}
	return err
}

func (s *sickStore) Close() error { return nil }

func (s *sickStore) set(err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.took = err, took
}

func (s *sickStore) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *sickStore) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *sickStore) called(op limiter.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// fused is a store behind a breaker, and what it told.
type fused struct {
	*sickStore
	limiter.Store
	changes chan limiter.BreakerChange
}

func newFused(settings limiter.Breaker) *fused {
	f := &fused{sickStore: &sickStore{now: time.Unix(1_700_000_000, 0)}, changes: make(chan limiter.BreakerChange, 100)}
	settings.Clock = f.clock
	settings.OnChange = func(c limiter.BreakerChange) { f.changes <- c }
	f.Store = limiter.WithBreaker(f.sickStore, settings)
	return f
}

func (f *fused) take() error {
	_, err := limiter.New(f.Store).Take(context.Background(), limiter.Key{Subject: "u"}, limiter.Limit{Count: 1, Period: time.Hour}, 1)
	return err
}

func (f *fused) want(t *testing.T, from, to limiter.BreakerState) limiter.BreakerChange {
	t.Helper()
	c := <-f.changes
	if c.From != from || c.To != to {
		t.Errorf("it went from %s to %s, want %s to %s", c.From, c.To, from, to)
	}
	return c
}

func isOpen(err error) bool {
	return errors.Is(err, limiter.ErrUnavailable) && strings.Contains(err.Error(), "circuit open since")
}

var (
	errAway    = fmt.Errorf("%w: no route", limiter.ErrUnavailable)
	errUnknown = fmt.Errorf("%w: cut off", limiter.ErrOutcomeUnknown)
)

// What opens a breaker is a store that is away or slow, several times in a row, and
// nothing else.
func TestWhatOpensABreaker(t *testing.T) {
	for name, test := range map[string]struct {
		errs  []error
		took  time.Duration
		opens bool
	}{
		"away":                       {[]error{errAway, errAway, errAway}, 0, true},
		"outcome unknown":            {[]error{errAway, errUnknown, errUnknown}, 0, true},
		"slow":                       {[]error{nil, nil, nil}, time.Second, true},
		"callers that gave up late":  {[]error{limiter.ErrGaveUp, limiter.ErrGaveUp, limiter.ErrGaveUp}, time.Second, true},
		"twice only":                 {[]error{errAway, errAway}, 0, false},
		"an answer between":          {[]error{errAway, errAway, nil, errAway, errAway}, 0, false},
		"a refusal between":          {[]error{errAway, errAway, limiter.ErrRefused, errAway, errAway}, 0, false},
		"wrong password":             {[]error{limiter.ErrRefused, limiter.ErrRefused, limiter.ErrRefused}, 0, false},
		"foreign":                    {[]error{limiter.ErrForeign, limiter.ErrForeign, limiter.ErrForeign}, 0, false},
		"denials":                    {[]error{nil, nil, nil}, 0, false},
		"callers that gave up early": {[]error{limiter.ErrGaveUp, limiter.ErrGaveUp, limiter.ErrGaveUp}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFused(limiter.Breaker{Failures: 3, Slow: 100 * time.Millisecond})
			for _, err := range test.errs {
				f.set(err, test.took)
				if got := f.take(); !errors.Is(got, err) {
					t.Errorf("told %v, want %v", got, err)
				}
			}
			f.set(nil, 0)
			calls := f.called(limiter.Take)
			if err := f.take(); isOpen(err) != test.opens {
				t.Errorf("then %v; want it open: %v", err, test.opens)
			}
			if asked := f.called(limiter.Take) > calls; asked == test.opens {
				t.Errorf("the store was asked: %v, and the breaker is to be open: %v", asked, test.opens)
			}
		})
	}
}

// An open breaker answers at once and charges nothing. After its pause it asks the store
// once, whatever comes in, and waits twice as long after each failure.
func TestAnOpenBreakerTriesWithOneProbe(t *testing.T) {
	f := newFused(limiter.Breaker{Failures: 1, Pause: time.Second, MaxPause: 3 * time.Second})
	f.set(errUnknown, 0)
	if err := f.take(); !errors.Is(err, limiter.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	f.want(t, limiter.BreakerClosed, limiter.BreakerOpen)
	if err := f.take(); !isOpen(err) || errors.Is(err, limiter.ErrOutcomeUnknown) {
		t.Errorf("%v; want an ErrUnavailable, which charged nothing", err)
	}
	var pauses []time.Duration
	for range 4 {
		probes, waited := f.called(limiter.Peek), time.Duration(0)
		for f.called(limiter.Peek) == probes {
			f.pass(100 * time.Millisecond)
			waited += 100 * time.Millisecond
			if err := f.take(); !isOpen(err) {
				t.Fatal(err)
			}
			if waited%time.Second == 0 { // a probe may be on its way
				select {
				case <-f.changes:
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		pauses = append(pauses, waited)
	}
	if want := []time.Duration{1e9, 2e9, 3e9, 3e9}; !slices.Equal(pauses, want) {
		t.Errorf("pauses of %v, want %v", pauses, want)
	}
	if n := f.called(limiter.Take); n != 1 {
		t.Errorf("%d takes reached the store, want the first", n)
	}
}

// When the store is back, one probe and then one call find that out, in a flood of
// callers, and the breaker closes.
func TestABreakerCloses(t *testing.T) {
	f := newFused(limiter.Breaker{Failures: 1, Pause: time.Second})
	f.set(errAway, 0)
	f.take()
	f.want(t, limiter.BreakerClosed, limiter.BreakerOpen)
	f.set(nil, 0)
	f.pass(time.Second)
	f.hold = make(chan struct{})
	flood := func() (open int) {
		var callers sync.WaitGroup
		var mu sync.Mutex
		for range 100 {
			callers.Go(func() {
				if isOpen(f.take()) {
					mu.Lock()
					defer mu.Unlock()
					open++
				}
			})
		}
		callers.Wait()
		return open
	}
	if open := flood(); open != 100 {
		t.Errorf("%d of 100 were told that it is open while the probe was under way", open)
	}
	f.hold <- struct{}{}
	f.want(t, limiter.BreakerOpen, limiter.BreakerHalfOpen)
	trial := make(chan error)
	go func() { trial <- f.take() }()
	for f.called(limiter.Take) < 2 {
		time.Sleep(time.Millisecond)
	}
	if open := flood(); open != 100 {
		t.Errorf("%d of 100 were told that it is open while the one call was under way", open)
	}
	f.hold <- struct{}{}
	if err := <-trial; err != nil {
		t.Error(err)
	}
	f.want(t, limiter.BreakerHalfOpen, limiter.BreakerClosed)
	if peeks, takes := f.called(limiter.Peek), f.called(limiter.Take); peeks != 1 || takes != 2 {
		t.Errorf("%d probes and %d takes reached the store; want 1 and 2", peeks, takes)
	}
	close(f.hold)
	if open := flood(); open != 0 {
		t.Errorf("%d of 100 were told that it is open", open)
	}
}

// A half-open breaker whose one call fails opens again, and one whose caller gives up
// lets another try.
func TestAHalfOpenBreaker(t *testing.T) {
	for _, test := range []struct {
		err error
		to  limiter.BreakerState
	}{{errAway, limiter.BreakerOpen}, {limiter.ErrRefused, limiter.BreakerClosed}} {
		f := newFused(limiter.Breaker{Failures: 1, Pause: time.Second})
		f.set(errAway, 0)
		f.take()
		f.want(t, limiter.BreakerClosed, limiter.BreakerOpen)
		f.set(nil, 0)
		f.pass(time.Second)
		f.take()
		f.want(t, limiter.BreakerOpen, limiter.BreakerHalfOpen)
		f.set(limiter.ErrGaveUp, 0)
		if err := f.take(); isOpen(err) {
			t.Error(err)
		}
		f.set(test.err, 0)
		if err := f.take(); isOpen(err) {
			t.Error(err)
		}
		f.want(t, limiter.BreakerHalfOpen, test.to)
	}
}
