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
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sickStore is a store with a virtual clock, of which each shard answers with an error after some time. It has a shard
// for each first letter of a subject, until moved says otherwise. A call for the subject "denied" needs no shard that
// is away.
type sickStore struct {
	mu      sync.Mutex
	now     time.Time
	moved   map[string]string        // by letter
	sick    map[string]error         // by shard
	took    map[string]time.Duration // by shard
	asked   map[string]int           // by shard
	calls   map[store.Op]int
	hold    map[store.Op]chan struct{} // if set, an answer waits for it
	checks  chan []store.Request       // of each recovery check
	unnamed bool                       // errors do not name their shard
}

func newSickStore() *sickStore {
	return &sickStore{now: time.Unix(1_700_000_000, 0), moved: map[string]string{}, sick: map[string]error{},
		took: map[string]time.Duration{}, asked: map[string]int{}, calls: map[store.Op]int{},
		hold: map[store.Op]chan struct{}{}, checks: make(chan []store.Request, 100)}
}

func (s *sickStore) shard(key store.Key) string {
	shard := key.Subject[:1]
	if to, moved := s.moved[shard]; moved {
		return to
	}
	return shard
}

func (s *sickStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var shards []string
	var errs []error
	for i, req := range reqs {
		decisions[i] = store.Decision{Allowed: true}
		if shard := s.shard(req.Key); !slices.Contains(shards, shard) {
			shards, errs = append(shards, shard), append(errs, s.sick[shard])
			s.asked[shard]++
			s.now = s.now.Add(s.took[shard])
		}
	}
	s.calls[op]++
	if hold := s.hold[op]; hold != nil {
		s.mu.Unlock()
		select {
		case <-hold:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return errAway
		}
	}
	if op == store.Peek {
		s.checks <- slices.Clone(reqs)
	}
	denied := slices.ContainsFunc(reqs, func(req store.Request) bool { return req.Key.Subject == "denied" })
	for n, err := range errs {
		switch {
		case err == nil:
		case denied:
			for i := range reqs {
				decisions[i].Unguarded = s.shard(reqs[i].Key) == shards[n]
			}
		case s.unnamed:
			return err
		default:
			return fmt.Errorf("it failed: %w", &store.ShardError{Shard: shards[n], Err: err})
		}
	}
	return nil
}

func (s *sickStore) Close() error { return nil }

// change changes the store.
func (s *sickStore) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sickStore) clock() (now time.Time) {
	s.change(func() { now = s.now })
	return now
}

func (s *sickStore) pass(d time.Duration) { s.change(func() { s.now = s.now.Add(d) }) }

func (s *sickStore) called(op store.Op) (n int) {
	s.change(func() { n = s.calls[op] })
	return n
}

// holdBack makes answers to op wait until the channel is sent to, or closed. Without an op no later answer waits.
func (s *sickStore) holdBack(ops ...store.Op) chan<- struct{} {
	hold := make(chan struct{})
	s.change(func() {
		clear(s.hold)
		for _, op := range ops {
			s.hold[op] = hold
		}
	})
	return hold
}

// fused is a store behind a breaker, and the changes it reported.
type fused struct {
	*sickStore
	store.Store
	changes chan store.BreakerChange
}

// fuse puts a store of one piece behind a breaker. Its subjects begin with u.
func fuse(settings store.Breaker) *fused {
	s := newSickStore()
	s.unnamed = true
	return fuseOver(s, s, settings)
}

func fuseOver(s *sickStore, backend store.Store, settings store.Breaker) *fused {
	f := &fused{sickStore: s, changes: make(chan store.BreakerChange, 5000)}
	f.Store = layers.Stack(backend, layers.Layers{Breaker: &settings, Env: layers.Env{Clock: f.clock,
		Observer: &layers.Observer{OnBreaker: func(c store.BreakerChange) { f.changes <- c }}}})
	return f
}

// set lets a store of one piece answer with err after took.
func (f *fused) set(err error, took time.Duration) {
	f.change(func() { f.sick["u"], f.took["u"] = err, took })
}

// take takes for subjects in one call, or for u.
func (f *fused) take(subjects ...string) error {
	if subjects == nil {
		subjects = []string{"u"}
	}
	reqs := make([]store.Request, len(subjects))
	for i, subject := range subjects {
		reqs[i] = store.Request{Key: store.Key{Subject: subject}, Limit: store.Limit{Count: 1, Period: time.Hour},
			Cost: 1}
	}
	return f.Store.Decide(context.Background(), store.Take, reqs, make([]store.Decision, len(reqs)))
}

// want checks for a change of a store of one piece.
func (f *fused) want(t *testing.T, from, to store.BreakerState) store.BreakerChange {
	t.Helper()
	return f.wantOf(t, "", from, to)
}

// wantOf checks for a change of a shard, which comes before all goroutines of the bubble wait.
func (f *fused) wantOf(t *testing.T, shard string, from, to store.BreakerState) (c store.BreakerChange) {
	t.Helper()
	synctest.Wait()
	select {
	case c = <-f.changes:
	default:
	}
	if c.Shard != shard || c.From != from || c.To != to {
		t.Errorf("%q went from %s to %s; want %q from %s to %s", c.Shard, c.From, c.To, shard, from, to)
	}
	return c
}

// wantRecovery checks that the breaker is half-open, and then to.
func (f *fused) wantRecovery(t *testing.T, to store.BreakerState) store.BreakerChange {
	t.Helper()
	f.want(t, store.BreakerOpen, store.BreakerHalfOpen)
	return f.want(t, store.BreakerHalfOpen, to)
}

// open lets the store be away until the breaker is open, and then answer again.
func (f *fused) open(t *testing.T) {
	t.Helper()
	f.set(errAway, 0)
	for n := 0; n < 5 && len(f.changes) == 0; n++ {
		f.take()
	}
	f.want(t, store.BreakerClosed, store.BreakerOpen)
	f.set(nil, 0)
}

// quiet checks that there are no more changes.
func (f *fused) quiet(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(f.changes) > 0 {
		t.Errorf("it changes: %+v", <-f.changes)
	}
}

func isOpen(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), "circuit open since")
}

var (
	errAway    = fmt.Errorf("%w: no route", store.ErrUnavailable)
	errUnknown = fmt.Errorf("%w: cut off", store.ErrOutcomeUnknown)
)

// batch is the error of all callers of a batch.
func batch(number uint64) error { return &store.BatchError{Batch: number, Err: errAway} }

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
		"closed":                     {[]error{store.ErrClosed, store.ErrClosed, store.ErrClosed}, 0, false},
		"callers that gave up early": {[]error{store.ErrGaveUp, store.ErrGaveUp, store.ErrGaveUp}, 0, false},
		"invalid":                    {[]error{store.ErrInvalid, store.ErrInvalid, store.ErrInvalid}, 0, false},
		"nothing said between":       {[]error{errAway, store.ErrGaveUp, errAway, store.ErrInvalid, errAway}, 0, true},
		"callers of two batches":     {[]error{batch(1), batch(2), batch(1), batch(2), batch(1)}, 0, false},
		"three batches":              {[]error{batch(1), batch(1), batch(2), batch(3)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := fuse(store.Breaker{Failures: 3, Slow: 100 * time.Millisecond})
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

// wantFlood checks how many of a hundred concurrent callers are refused by the breaker.
func (f *fused) wantFlood(t *testing.T, open int64) {
	t.Helper()
	var callers sync.WaitGroup
	var told atomic.Int64
	for range 100 {
		callers.Go(func() {
			if isOpen(f.take()) {
				told.Add(1)
			}
		})
	}
	if callers.Wait(); told.Load() != open {
		t.Errorf("%d of 100 were told that it is open, want %d", told.Load(), open)
	}
}

// An open breaker answers at once and charges nothing. After its pause it checks the store once, however many calls
// come, and doubles the pause after each failure.
func TestAnOpenBreakerTriesWithOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuse(store.Breaker{Failures: 1, Pause: time.Second, MaxPause: 3 * time.Second})
		f.set(errUnknown, 0)
		if err := f.take(); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		f.want(t, store.BreakerClosed, store.BreakerOpen)
		err := f.take()
		if !isOpen(err) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("%v; want an ErrUnavailable, which charged nothing", err)
		}
		text := "store unavailable (circuit open since " + f.clock().Format("15:04:05") +
			"); the last error was: outcome unknown: cut off"
		if strings.Contains(fmt.Sprint(err), "\n") || fmt.Sprint(err) != text {
			t.Errorf("it says\n%v, not\n%s", err, text)
		}
		for n, pause := range []time.Duration{1e9, 2e9, 3e9, 3e9} {
			f.pass(pause - 1)
			f.wantFlood(t, 100)
			f.pass(1)
			f.wantFlood(t, 100)
			if c := f.wantRecovery(t, store.BreakerOpen); !errors.Is(c.Reason, errUnknown) {
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

// A recovery check has as much time as a good answer. Meanwhile nobody waits for it, and no other one starts. MaxPause
// is never shorter than Pause.
func TestNobodyWaitsForARecoveryCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuse(store.Breaker{Failures: 1, Pause: time.Second, MaxPause: time.Millisecond,
			Slow: 100 * time.Millisecond})
		f.open(t)
		f.pass(time.Second)
		f.holdBack(store.Peek)
		f.wantFlood(t, 100)
		f.want(t, store.BreakerOpen, store.BreakerHalfOpen)
		time.Sleep(100*time.Millisecond - 1)
		f.pass(time.Hour)
		f.wantFlood(t, 100)
		f.quiet(t)
		time.Sleep(time.Nanosecond)
		f.want(t, store.BreakerHalfOpen, store.BreakerOpen)
		f.holdBack()
		f.pass(time.Second)
		f.take()
		f.wantRecovery(t, store.BreakerClosed)
		f.wantFlood(t, 0)
		if peeks, takes := f.called(store.Peek), f.called(store.Take); peeks != 2 || takes != 101 {
			t.Errorf("%d recovery checks and %d takes reached the store; want 2, and 100 after the first", peeks, takes)
		}
	})
}

// A breaker that has just closed opens again on the first failure, with a longer pause, until a call has succeeded. An
// error says since when it is open this time.
func TestAClosedBreakerIsOnProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuse(store.Breaker{Failures: 3, Pause: time.Second})
		f.open(t)
		reopen := func(pause time.Duration, failures int) {
			t.Helper()
			f.set(store.ErrRefused, 0) // an answer
			f.pass(pause - 1)
			f.wantFlood(t, 100)
			f.pass(1)
			f.take()
			f.wantRecovery(t, store.BreakerClosed)
			f.set(store.ErrGaveUp, 0) // does not count
			f.take()
			f.set(errAway, 0)
			for n := range failures {
				if err := f.take(); isOpen(err) {
					t.Errorf("after %d failures: %v", n, err)
				}
			}
			f.want(t, store.BreakerClosed, store.BreakerOpen)
			if err, since := f.take(), f.clock().Format("15:04:05"); !strings.Contains(
				fmt.Sprint(err), "open since "+since) {
				t.Errorf("%v; want it open since %s", err, since)
			}
		}
		reopen(1*time.Second, 1)
		reopen(2*time.Second, 1)
		f.set(nil, 0)
		f.pass(4 * time.Second)
		f.take()
		f.wantRecovery(t, store.BreakerClosed)
		if err := f.take(); err != nil {
			t.Error(err)
		}
		f.open(t)
		reopen(1*time.Second, 1)
	})
}

// An invalid call gets its own error even while the breaker is open, and starts no recovery check. A recovery check
// fits into a full store.
func TestABreakerChecksWithAPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuse(store.Breaker{Failures: 1, Pause: time.Second})
		f.open(t)
		left, leave := context.WithCancel(t.Context())
		leave()
		err := f.Store.Decide(left, store.Take, []store.Request{asking("u", "9/1h", 1)}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrGaveUp) {
			t.Errorf("a caller that left is told %v", err)
		}
		f.pass(time.Second)
		ask := func(op store.Op, cost int64) error {
			req := store.Request{Key: store.Key{Subject: "u"}, Limit: store.Limit{Count: 9, Period: time.Hour},
				Cost: cost}
			return f.Store.Decide(context.Background(), op, []store.Request{req}, make([]store.Decision, 1))
		}
		if err := ask(store.Take, 10); !errors.Is(err, store.ErrNeverFits) || f.called(store.Peek) != 0 {
			t.Errorf("%v after %d recovery checks", err, f.called(store.Peek))
		}
		if err := ask(store.Adjust, 0); !isOpen(err) {
			t.Error(err)
		}
		f.wantRecovery(t, store.BreakerClosed)
		if reqs := <-f.checks; len(reqs) != 1 || reqs[0].Key.Subject != "u" || reqs[0].Cost != 1 {
			t.Errorf("checked with %+v", reqs)
		}
	})
}
