package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sickStore answers with err, after a virtual time of took.
type sickStore struct {
	mu    sync.Mutex
	now   time.Time
	err   error
	took  time.Duration
	calls map[store.Op]int
	hold  map[store.Op]chan struct{} // if set, an answer waits for it
	last  []store.Request
}

func (s *sickStore) Decide(_ context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	s.last = slices.Clone(reqs)
	if s.calls == nil {
		s.calls = map[store.Op]int{}
	}
	s.calls[op]++
	s.now = s.now.Add(s.took)
	hold, err := s.hold[op], s.err
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	for i := range decisions {
		decisions[i] = store.Decision{} // a denial
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

// holdBack makes answers to op wait until the channel is sent to, or closed.
func (s *sickStore) holdBack(op store.Op) chan<- struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.hold = map[store.Op]chan struct{}{op: hold}
	return hold
}

// asked returns the requests of the last call.
func (s *sickStore) asked() []store.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *sickStore) called(op store.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// fused is a store behind a breaker, and the changes it reported.
type fused struct {
	*sickStore
	store.Store
	changes chan layers.BreakerChange
}

func newFused(settings layers.Breaker) *fused {
	f := &fused{sickStore: &sickStore{now: time.Unix(1_700_000_000, 0)}, changes: make(chan layers.BreakerChange, 100)}
	settings.Clock = f.clock
	settings.OnChange = func(c layers.BreakerChange) { f.changes <- c }
	f.Store = layers.WithBreaker(f.sickStore, settings)
	return f
}

func (f *fused) take() error {
	_, err := storecall.New(f.Store).Take(context.Background(), store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
	return err
}

// want checks for a change, which comes before all goroutines of the bubble wait.
func (f *fused) want(t *testing.T, from, to layers.BreakerState) (c layers.BreakerChange) {
	t.Helper()
	synctest.Wait()
	select {
	case c = <-f.changes:
	default:
		t.Errorf("it stays as it is, want it to go from %s to %s", from, to)
		return c
	}
	if c.From != from || c.To != to {
		t.Errorf("it went from %s to %s, want %s to %s", c.From, c.To, from, to)
	}
	return c
}

func isOpen(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "circuit open since")
}

var (
	errAway    = fmt.Errorf("%w: no route", store.ErrUnavailable)
	errUnknown = fmt.Errorf("%w: cut off", store.ErrOutcomeUnknown)
)

// A breaker opens when the store is away or slow several times in a row, and for no other reason.
func TestWhatOpensABreaker(t *testing.T) {
	for name, test := range map[string]struct {
		errs  []error
		took  time.Duration
		opens bool
	}{
		"away":                       {[]error{errAway, errAway, errAway}, 0, true},
		"outcome unknown":            {[]error{errAway, errUnknown, errUnknown}, 0, true},
		"slow":                       {[]error{nil, nil, nil}, 100*time.Millisecond + 1, true},
		"just in time":               {[]error{nil, nil, nil}, 100 * time.Millisecond, false},
		"callers that gave up late":  {[]error{store.ErrGaveUp, store.ErrGaveUp, store.ErrGaveUp}, time.Second, true},
		"twice only":                 {[]error{errAway, errAway}, 0, false},
		"an answer between":          {[]error{errAway, errAway, nil, errAway, errAway}, 0, false},
		"a refusal between":          {[]error{errAway, errAway, store.ErrRefused, errAway, errAway}, 0, false},
		"wrong password":             {[]error{store.ErrRefused, store.ErrRefused, store.ErrRefused}, 0, false},
		"foreign":                    {[]error{store.ErrForeign, store.ErrForeign, store.ErrForeign}, 0, false},
		"denials":                    {[]error{nil, nil, nil}, 0, false},
		"callers that gave up early": {[]error{store.ErrGaveUp, store.ErrGaveUp, store.ErrGaveUp}, 0, false},
		"invalid":                    {[]error{store.ErrInvalid, store.ErrInvalid, store.ErrInvalid}, 0, false},
		"nothing said between":       {[]error{errAway, store.ErrGaveUp, errAway, store.ErrInvalid, errAway}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFused(layers.Breaker{Failures: 3, Slow: 100 * time.Millisecond})
			for _, err := range test.errs {
				f.set(err, test.took)
				if got := f.take(); !errors.Is(got, err) {
					t.Errorf("told %v, want %v", got, err)
				}
			}
			f.set(nil, 0)
			calls := f.called(store.Take)
			if err := f.take(); isOpen(err) != test.opens {
				t.Errorf("then %v; want it open: %v", err, test.opens)
			}
			if asked := f.called(store.Take) > calls; asked == test.opens {
				t.Errorf("the store was asked: %v, and the breaker is to be open: %v", asked, test.opens)
			}
		})
	}
}

// flood takes with a hundred concurrent callers and returns how many were refused by the breaker.
func (f *fused) flood() (open int) {
	var callers sync.WaitGroup
	var told atomic.Int64
	for range 100 {
		callers.Go(func() {
			if isOpen(f.take()) {
				told.Add(1)
			}
		})
	}
	callers.Wait()
	return int(told.Load())
}

// wantFlood checks that the breaker refuses all, or none, of a flood of callers.
func (f *fused) wantFlood(t *testing.T, open int) {
	t.Helper()
	if told := f.flood(); told != open {
		t.Errorf("%d of 100 were told that it is open, want %d", told, open)
	}
}

// An open breaker answers at once and charges nothing. After its pause it checks the store once, however many calls
// come, and doubles the pause after each failure.
func TestAnOpenBreakerTriesWithOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Second, MaxPause: 3 * time.Second})
		f.set(errUnknown, 0)
		if err := f.take(); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		err := f.take()
		if !isOpen(err) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("%v; want an ErrUnavailable, which charged nothing", err)
		}
		text := "store unavailable (circuit open since " + f.clock().Format("15:04:05") + "); the last error was: outcome unknown: cut off"
		if strings.Contains(fmt.Sprint(err), "\n") || fmt.Sprint(err) != text {
			t.Errorf("it says\n%v, not\n%s", err, text)
		}
		for n, pause := range []time.Duration{1e9, 2e9, 3e9, 3e9} {
			f.pass(pause - 1)
			f.wantFlood(t, 100)
			f.pass(1)
			f.wantFlood(t, 100)
			f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
			if c := f.want(t, layers.BreakerHalfOpen, layers.BreakerOpen); !errors.Is(c.Reason, errUnknown) {
				t.Errorf("it stays open because of %v", c.Reason)
			}
			if checks := f.called(store.Peek); checks != n+1 {
				t.Errorf("%d recovery checks after %d pauses", checks, n+1)
			}
		}
		if n := f.called(store.Take); n != 1 {
			t.Errorf("%d takes reached the store, want the first", n)
		}
	})
}

// When the store is back, the first recovery check closes the breaker. A flood of callers starts only that one, and
// none of them waits for it.
func TestTheFirstCheckClosesABreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Second})
		f.set(errAway, 0)
		f.take()
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		f.set(nil, 0)
		f.pass(time.Second)
		hold := f.holdBack(store.Peek)
		f.wantFlood(t, 100)
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		f.pass(time.Hour)
		f.wantFlood(t, 100) // the recovery check is under way
		close(hold)
		f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
		f.wantFlood(t, 0)
		if peeks, takes := f.called(store.Peek), f.called(store.Take); peeks != 1 || takes != 101 {
			t.Errorf("%d recovery checks and %d takes reached the store; want 1, and 100 after the first", peeks, takes)
		}
	})
}

// A recovery check of a store that ignores its context is abandoned, so that the next one can succeed.
func TestACheckThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Second, MaxPause: time.Second, Slow: 100 * time.Millisecond})
		f.set(errAway, 0)
		f.take()
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		f.set(nil, 0)
		f.pass(time.Second)
		hung := f.holdBack(store.Peek)
		f.take()
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		time.Sleep(200*time.Millisecond - 1)
		synctest.Wait()
		if len(f.changes) > 0 {
			t.Errorf("the recovery check was given up too early: %+v", <-f.changes)
		}
		time.Sleep(time.Nanosecond)
		c := f.want(t, layers.BreakerHalfOpen, layers.BreakerOpen)
		if !errors.Is(c.Reason, store.ErrUnavailable) || !strings.Contains(c.Reason.Error(), "not answered within 200ms") {
			t.Errorf("it is open since %v", c.Reason)
		}
		f.holdBack(store.Take)
		f.pass(time.Second)
		f.take()
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
		close(hung) // too late to count
		synctest.Wait()
		if len(f.changes) > 0 {
			t.Errorf("a late answer changed it: %+v", <-f.changes)
		}
	})
}

// A breaker that has just closed opens again on the first failure, with a longer pause, until a call has succeeded.
func TestAClosedBreakerIsOnProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 3, Pause: time.Second})
		f.set(errAway, 0)
		for range 3 {
			f.take()
		}
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		reopen := func(pause time.Duration, failures int) {
			t.Helper()
			f.set(store.ErrRefused, 0) // an answer
			f.pass(pause - 1)
			f.wantFlood(t, 100)
			f.pass(1)
			f.take()
			f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
			f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
			f.set(store.ErrGaveUp, 0) // does not count
			f.take()
			f.set(errAway, 0)
			for n := range failures {
				if err := f.take(); isOpen(err) {
					t.Errorf("after %d failures: %v", n, err)
				}
			}
			f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		}
		reopen(1*time.Second, 1)
		reopen(2*time.Second, 1)
		f.set(nil, 0)
		f.pass(4 * time.Second)
		f.take()
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
		if err := f.take(); err != nil {
			t.Error(err)
		}
		f.set(errAway, 0)
		for range 3 {
			f.take()
		}
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		reopen(1*time.Second, 1)
	})
}

// An error says since when the breaker is open this time. A pause is never longer than MaxPause, and MaxPause never
// shorter than Pause.
func TestSinceWhenABreakerIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Minute, MaxPause: time.Second})
		open := func(since string) {
			t.Helper()
			f.set(errAway, 0)
			f.take()
			f.want(t, layers.BreakerClosed, layers.BreakerOpen)
			if err := f.take(); !strings.Contains(fmt.Sprint(err), "open since "+since) {
				t.Errorf("%v; want it open since %s", err, since)
			}
		}
		// 22:13:20 UTC, in the zone of this machine
		begin := time.Unix(1_700_000_000, 0)
		open(begin.Format("15:04:05"))
		for n := range 2 {
			f.set(nil, 0)
			f.pass(time.Minute - 1)
			f.wantFlood(t, 100)
			f.pass(1)
			f.take()
			f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
			f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
			open(begin.Add(time.Duration(n+1) * time.Minute).Format("15:04:05"))
		}
	})
}

// Calls from before the breaker opened say nothing about the store now.
func TestALateFailureDoesNotOpenABreakerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Second})
		hold := f.holdBack(store.Take)
		f.set(errAway, 0)
		errs := make(chan error)
		for range 2 {
			go func() { errs <- f.take() }()
		}
		synctest.Wait()
		hold <- struct{}{}
		<-errs
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		f.set(nil, 0)
		f.pass(time.Second)
		f.take()
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
		hold <- struct{}{}
		if err := <-errs; !errors.Is(err, errAway) {
			t.Errorf("the late call is told %v", err)
		}
		close(hold)
		f.wantFlood(t, 0)
	})
}

// An invalid call gets its own error even while the breaker is open, and starts no recovery check. A recovery check
// fits into a full store.
func TestABreakerChecksWithAPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFused(layers.Breaker{Failures: 1, Pause: time.Second})
		f.set(errAway, 0)
		f.take()
		f.want(t, layers.BreakerClosed, layers.BreakerOpen)
		f.set(nil, 0)
		f.pass(time.Second)
		ask := func(op store.Op, cost int64) error {
			req := store.Request{Key: store.Key{Subject: "u"}, Limit: store.Limit{Count: 9, Period: time.Hour}, Cost: cost}
			return f.Store.Decide(context.Background(), op, []store.Request{req}, make([]store.Decision, 1))
		}
		if err := ask(store.Take, 10); !errors.Is(err, store.ErrNeverFits) || f.called(store.Peek) != 0 {
			t.Errorf("%v after %d recovery checks", err, f.called(store.Peek))
		}
		if err := ask(store.Adjust, 0); !isOpen(err) {
			t.Error(err)
		}
		f.want(t, layers.BreakerOpen, layers.BreakerHalfOpen)
		f.want(t, layers.BreakerHalfOpen, layers.BreakerClosed)
		if reqs := f.asked(); len(reqs) != 1 || reqs[0].Key.Subject != "u" || reqs[0].Cost != 1 {
			t.Errorf("checked with %+v", reqs)
		}
	})
}
