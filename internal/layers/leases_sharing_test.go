package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// slowStore is a store whose calls take a while.
type slowStore struct {
	store.Store
	takes time.Duration
	calls atomic.Int64
	begun time.Time
	mu    sync.Mutex
	log   []string
	// instead, if set, replaces the store's answer.
	instead atomic.Pointer[func(ctx context.Context) error]
}

func (s *slowStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.calls.Add(1)
	s.mu.Lock()
	s.log = append(s.log, fmt.Sprint(op, " ", reqs[0].Cost))
	s.mu.Unlock()
	time.Sleep(s.takes / 2)
	if instead := s.instead.Load(); instead != nil {
		return (*instead)(ctx)
	}
	err := s.Store.Decide(ctx, op, reqs, decisions)
	time.Sleep(s.takes - s.takes/2)
	return err
}

func (s *slowStore) Close() error { return nil }

func (s *slowStore) fail(instead func(ctx context.Context) error) { s.instead.Store(&instead) }

func newSlowStore(takes time.Duration) *slowStore {
	return &slowStore{Store: memorystore.New(), takes: takes, begun: time.Now()}
}

var (
	hotKey   = store.Key{Subject: "user:1", Name: "all"}
	hotLimit = store.Limit{Algorithm: store.FixedWindow, Count: 10_000, Period: time.Hour}
)

// heated returns leases over a store with a key that is hot after four takes: its next one makes a lease.
func heated(t *testing.T, takes time.Duration, limit store.Limit) (*slowStore, store.Store) {
	slow := newSlowStore(0)
	leases := layers.Stack(slow, layers.Layers{Leases: &store.Leases{Max: 50}})
	for range 4 {
		if d := ask(t, leases, hotKey, limit, 1); d.DecidedBy != store.DecidedByStore {
			t.Fatalf("a cold key: %+v", d)
		}
	}
	slow.takes, slow.log = takes, nil
	slow.calls.Store(0)
	return slow, leases
}

// told is what a caller is told.
type told struct {
	store.Decision
	err   error
	after time.Duration
}

// together takes a unit for each caller at once, and returns what they are told.
func together(leases store.Store, limit store.Limit, callers ...context.Context) []told {
	all, begin := make([]told, len(callers)), time.Now()
	var group sync.WaitGroup
	for n, ctx := range callers {
		group.Go(func() {
			time.Sleep(time.Duration(n) * time.Microsecond) // in this order
			d, err := storecall.New(leases).Take(ctx, hotKey, limit, 1)
			all[n] = told{d, err, time.Since(begin)}
		})
	}
	group.Wait()
	return all
}

// Callers of one key share a call, which takes what all need and some in advance. Each keeps its own deadline.
func TestCallersShareARefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 20*time.Millisecond, hotLimit)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		callers := slices.Repeat([]context.Context{t.Context()}, 10)
		callers[4] = short
		for i, d := range together(leases, hotLimit, callers...) {
			switch {
			case i == 4:
				if !errors.Is(d.err, store.ErrGaveUp) || errors.Is(d.err, store.ErrOutcomeUnknown) ||
					d.after != 5*time.Millisecond {
					t.Errorf("its deadline over: %v after %s", d.err, d.after)
				}
			case d.err != nil || !d.Allowed:
				t.Errorf("caller %d: %+v", i, d)
			}
		}
		// The first call took a unit for its caller and two in advance. The others got those, and one more call.
		if slow.calls.Load() != 2 {
			t.Errorf("calls %q", slow.log)
		}
		leases.Close()
		if d := decide(t, slow.Store, store.Peek, store.Request{Key: hotKey, Limit: hotLimit, Cost: 1})[0]; d.Used != 4+
			9 {
			t.Errorf("%d units are in use; 13 were taken, after %q", d.Used, slow.log)
		}
	})
}

// A refill that fails fails for its caller, and the others call the store themselves, once. One that hangs holds up
// nobody whose time is over.
func TestARefillsErrorIsItsCallers(t *testing.T) {
	for name, test := range map[string]struct {
		instead func(context.Context) error
		want    error
	}{
		"unknown":      {func(context.Context) error { return errUnknown }, store.ErrOutcomeUnknown},
		"refused":      {func(context.Context) error { return store.ErrRefused }, store.ErrRefused},
		"they gave up": {func(ctx context.Context) error { <-ctx.Done(); return store.GaveUp(ctx) }, store.ErrGaveUp},
	} {
		synctest.Test(t, func(t *testing.T) {
			slow, leases := heated(t, 10*time.Millisecond, hotLimit)
			slow.fail(test.instead)
			callers, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			for _, d := range together(leases, hotLimit, slices.Repeat([]context.Context{callers}, 5)...) {
				if !errors.Is(d.err, test.want) {
					t.Errorf("%s: error %v, want %v", name, d.err, test.want)
				}
			}
			synctest.Wait()
			if slow.calls.Load() > 5 {
				t.Errorf("%s: 5 callers made %d calls", name, slow.calls.Load())
			}
			slow.instead.Store(nil)
			if d := ask(t, leases, hotKey, hotLimit, 1); !d.Allowed {
				t.Errorf("%s: once it is back: %+v", name, d)
			}
			leases.Close()
		})
	}
}

// If less remains than callers need together, they get that before one is denied, and the store makes the denial.
func TestLeasesAskForLessBeforeTheyDeny(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 20, Period: time.Hour}
	for callers, left := range map[int]int64{5: 5, 9: 7, 30: 16} { // 30 need more than the limit ever allows
		synctest.Test(t, func(t *testing.T) {
			slow, leases := heated(t, 10*time.Millisecond, limit)
			if taken := limit.Count - 4 - left; taken > 0 {
				ask(t, slow.Store, hotKey, limit, taken)
			}
			allowed := int64(0)
			for _, d := range together(leases, limit, slices.Repeat([]context.Context{t.Context()}, callers)...) {
				if d.Allowed {
					allowed++
				} else if d.err != nil || d.DecidedBy != store.DecidedByStore || d.RetryAfter <= 0 {
					t.Errorf("denied: %+v", d)
				}
			}
			if allowed != left {
				t.Errorf("%d of %d callers are allowed, where %d are left: %q", allowed, callers, left, slow.log)
			}
			leases.Close()
		})
	}
}

// Each unit is handed out once, however many callers there are, and what a call brings during Close goes back.
func TestUnitsAreHandedOutOnce(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: store.MaxCount, Period: 366 * 24 * time.Hour}
	backend := memorystore.New()
	leases := layers.Stack(uncloseable{backend}, layers.Layers{Leases: &store.Leases{Max: 100_000}})
	const callers, takes = 8, 20_000
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range takes {
				ask(t, leases, hotKey, limit, 1)
			}
		})
	}
	group.Wait()
	leases.Close()
	if d := decide(t, backend, store.Peek, store.Request{
		Key: hotKey, Limit: limit, Cost: 1})[0]; d.Used != callers*takes {
		t.Errorf("%d units are in use, and %d were taken", d.Used, callers*takes)
	}
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 100*time.Millisecond, hotLimit)
		go ask(t, leases, hotKey, hotLimit, 1)
		synctest.Wait()
		leases.Close()
		if d := decide(t, slow.Store, store.Peek, store.Request{Key: hotKey, Limit: hotLimit, Cost: 1})[0]; d.Used != 4+
			1 {
			t.Errorf("%d units are in use after Close, and 5 were taken", d.Used)
		}
	})
}
