package layers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
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

// heated returns leases over a store with a hot key: its next take makes a lease.
func heated(t *testing.T, takes time.Duration) (*slowStore, store.Store) {
	slow := newSlowStore(0)
	leases := layers.Stack(slow, layers.Layers{Leases: &store.Leases{Max: 50}})
	for range 4 {
		if d := ask(t, leases, hotKey, hotLimit, 1); d.DecidedBy != store.DecidedByStore {
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
func together(leases store.Store, callers ...context.Context) []told {
	all, begin := make([]told, len(callers)), time.Now()
	var group sync.WaitGroup
	for n, ctx := range callers {
		group.Go(func() {
			time.Sleep(time.Duration(n) * time.Microsecond) // in this order
			d, err := storecall.New(leases).Take(ctx, hotKey, hotLimit, 1)
			all[n] = told{d, err, time.Since(begin)}
		})
	}
	group.Wait()
	return all
}

// Callers of one key share a call, which takes what all need and some in advance. Each keeps its own deadline.
func TestCallersShareARefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 20*time.Millisecond)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		callers := slices.Repeat([]context.Context{t.Context()}, 10)
		callers[4] = short
		for i, d := range together(leases, callers...) {
			switch {
			case i == 4:
				if !errors.Is(d.err, store.ErrGaveUp) || errors.Is(d.err, store.ErrOutcomeUnknown) || d.after != 5*time.Millisecond {
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
		if d := decide(t, slow.Store, store.Peek, store.Request{Key: hotKey, Limit: hotLimit, Cost: 1})[0]; d.Used != 4+9 {
			t.Errorf("%d units are in use; 13 were taken, after %q", d.Used, slow.log)
		}
	})
}

// A refill that fails fails for its caller, and the others call the store themselves, once. One that hangs holds up nobody
// whose time is over.
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
			slow, leases := heated(t, 10*time.Millisecond)
			slow.fail(test.instead)
			callers, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			for _, d := range together(leases, slices.Repeat([]context.Context{callers}, 5)...) {
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

// If little remains, callers get that before one is denied, and the store makes the denial.
func TestLeasesAskForLessBeforeTheyDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 10*time.Millisecond)
		ask(t, slow.Store, hotKey, hotLimit, hotLimit.Count-4-7)
		allowed := 0
		for _, d := range together(leases, slices.Repeat([]context.Context{t.Context()}, 20)...) {
			if d.Allowed {
				allowed++
			} else if d.err != nil || d.DecidedBy != store.DecidedByStore || d.RetryAfter <= 0 {
				t.Errorf("denied: %+v", d)
			}
		}
		if allowed != 7 {
			t.Errorf("%d allowed, where 7 are left: %q", allowed, slow.log)
		}
		leases.Close()
	})
}

// Many concurrent callers of many replicas: the audit finds no over-admission, every denial is explained by held
// units, and all units go back at the end.
func TestManyCallersOfLeases(t *testing.T) {
	const replicas, callers, most = 3, 20, 50
	for _, text := range []string{"2000/1s", "300/1s,burst=1000", "fixed-window:1000/1s", "sliding-counter:1000/1s",
		"sliding-counter:1000/1s,slices=10", "sliding-log:1000/1s", "leaky-bucket:1000/1s"} {
		synctest.Test(t, func(t *testing.T) {
			limit, _ := asking("", text, 1).Limit.Normalize()
			slow := newSlowStore(2 * time.Millisecond)
			var mu sync.Mutex
			var observed []audit.Observation
			byLease := 0
			var group sync.WaitGroup
			var stacks []store.Store
			for r := range replicas {
				stack := layers.Stack(slow, layers.Layers{DenialMemory: &store.DenialMemory{}, Leases: &store.Leases{Max: most}})
				stacks = append(stacks, stack)
				for c := range callers {
					random := rand.New(rand.NewPCG(uint64(r), uint64(c)))
					group.Go(func() {
						for time.Since(slow.begun) < 3*time.Second {
							time.Sleep(time.Duration(random.ExpFloat64() * float64(30*time.Millisecond)))
							cost := 1 + random.Int64N(2)
							d := ask(t, stack, hotKey, limit, cost)
							mu.Lock()
							if d.DecidedBy == store.DecidedByLease {
								byLease++
							}
							observed = append(observed, audit.Observation{At: d.At, Cost: cost, Allowed: d.Allowed, Charged: d.Allowed})
							mu.Unlock()
						}
					})
				}
			}
			group.Wait()
			for _, stack := range stacks {
				stack.Close()
			}
			if f := audited(limit, observed, replicas*most); f.OverAdmitted > 0 || f.UnderAdmitted > 0 {
				t.Errorf("%s: %d over-admitted, %d under-admitted", limit, f.OverAdmitted, f.UnderAdmitted)
			}
			if leasable(limit.Kind()) != (byLease > 0) {
				t.Errorf("%s: %d of %d by leases", limit, byLease, len(observed))
			}
		})
	}
}
