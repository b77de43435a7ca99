package layers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	leases := layers.WithLeases(slow, layers.Leases{Max: 50})
	for range 4 {
		if d := ask(t, leases, hotKey, hotLimit, 1); d.DecidedBy != store.DecidedByStore {
			t.Fatalf("a cold key: %+v", d)
		}
	}
	slow.takes, slow.log = takes, nil
	slow.calls.Store(0)
	return slow, leases
}

// Callers of one key share one call, which takes what all of them need and some in advance. Each keeps its own
// deadline.
func TestCallersShareARefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 20*time.Millisecond)
		begin := time.Now()
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond) // in this order
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				defer cancel()
				if i != 4 {
					ctx = context.Background()
				}
				d, err := storecall.New(leases).Take(ctx, hotKey, hotLimit, 1)
				switch waited := time.Since(begin); {
				case i == 4:
					if !errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrOutcomeUnknown) || waited > 6*time.Millisecond {
						t.Errorf("its deadline over: %v after %s", err, waited)
					}
				case err != nil || !d.Allowed:
					t.Errorf("caller %d: %+v, %v", i, d, err)
				}
			})
		}
		group.Wait()
		// The first call took units for its caller and two in advance. The others got one of those, and one more
		// call.
		if slow.calls.Load() != 2 {
			t.Errorf("calls %q", slow.log)
		}
		leases.Close()
		d, _ := storecall.New(slow.Store).Peek(context.Background(), hotKey, hotLimit, 1)
		if d.Used != 4+9 {
			t.Errorf("%d units are in use; 13 were taken, after %q", d.Used, slow.log)
		}
	})
}

// A call that nobody waits for any more ends, and does not delay the next.
func TestARefillEndsWithItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 0)
		slow.fail(func(ctx context.Context) error { <-ctx.Done(); return store.GaveUp(ctx) })
		cancelled, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		for _, ctx := range []context.Context{cancelled, cancelled} {
			group.Go(func() {
				if _, err := storecall.New(leases).Take(ctx, hotKey, hotLimit, 1); !errors.Is(err, store.ErrGaveUp) {
					t.Errorf("cancelled: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		group.Wait()
		synctest.Wait()
		slow.instead.Store(nil)
		if d := ask(t, leases, hotKey, hotLimit, 1); !d.Allowed {
			t.Errorf("afterwards %+v", d)
		}
		leases.Close()
	})
}

// All callers of a call get its error, and it is not repeated.
func TestARefillsErrorIsItsCallers(t *testing.T) {
	for name, test := range map[string]struct {
		instead func(context.Context) error
		want    error
	}{
		"unknown": {func(context.Context) error { return errUnknown }, store.ErrOutcomeUnknown},
		"away":    {func(context.Context) error { return errAway }, store.ErrUnavailable},
		"refused": {func(context.Context) error { return store.ErrRefused }, store.ErrRefused},
		"a panic": {func(context.Context) error { panic("a hook's bug") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, leases := heated(t, 10*time.Millisecond)
				slow.fail(test.instead)
				var group sync.WaitGroup
				for range 5 {
					group.Go(func() {
						_, err := storecall.New(leases).Take(context.Background(), hotKey, hotLimit, 1)
						if err == nil || test.want != nil && !errors.Is(err, test.want) {
							t.Errorf("error %v, want %v", err, test.want)
						}
					})
				}
				group.Wait()
				if slow.calls.Load() > 2 {
					t.Errorf("5 callers made %d calls", slow.calls.Load())
				}
				slow.instead.Store(nil)
				if d := ask(t, leases, hotKey, hotLimit, 1); !d.Allowed {
					t.Errorf("once it is back: %+v", d)
				}
				leases.Close()
			})
		})
	}
}

// If little remains, callers get that before one is denied, and the store makes the denial.
func TestLeasesAskForLessBeforeTheyDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, leases := heated(t, 10*time.Millisecond)
		if _, err := storecall.New(slow.Store).Take(context.Background(), hotKey, hotLimit, hotLimit.Count-4-7); err != nil {
			t.Fatal(err)
		}
		var allowed, denied atomic.Int64
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				d, err := storecall.New(leases).Take(context.Background(), hotKey, hotLimit, 1)
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					allowed.Add(1)
				default:
					denied.Add(1)
					if d.DecidedBy != store.DecidedByStore || d.RetryAfter <= 0 {
						t.Errorf("denied: %+v", d)
					}
				}
			})
		}
		group.Wait()
		if allowed.Load() != 7 || denied.Load() != 13 {
			t.Errorf("%d allowed and %d denied, where 7 are left: %q", allowed.Load(), denied.Load(), slow.log)
		}
		leases.Close()
	})
}

// Many concurrent callers of many replicas: the audit finds no over-admission, every denial is explained by held
// units, and all units go back at the end.
func TestManyCallersOfLeases(t *testing.T) {
	for _, limit := range []store.Limit{
		{Count: 2000, Period: time.Second}, {Count: 300, Period: time.Second, Burst: 1000},
		{Algorithm: store.FixedWindow, Count: 1000, Period: time.Second},
		{Algorithm: store.SlidingCounter, Count: 1000, Period: time.Second},
		{Algorithm: store.SlidingCounter, Count: 1000, Period: time.Second, Slices: 10},
		{Algorithm: store.SlidingLog, Count: 1000, Period: time.Second},
		{Algorithm: store.LeakyBucket, Count: 1000, Period: time.Second},
	} {
		t.Run(limit.String(), func(t *testing.T) {
			limit, _ := limit.Normalize()
			synctest.Test(t, func(t *testing.T) {
				const replicas, callers, most = 3, 20, 50
				slow := newSlowStore(2 * time.Millisecond)
				var mu sync.Mutex
				var observed []audit.Observation
				byLease := 0
				var group sync.WaitGroup
				var stacks []store.Store
				for r := range replicas {
					stack := layers.DenialMemory{}.Wrap(layers.WithLeases(slow, layers.Leases{Max: most}))
					stacks = append(stacks, stack)
					for c := range callers {
						random := rand.New(rand.NewPCG(uint64(r), uint64(c)))
						group.Go(func() {
							for time.Since(slow.begun) < 3*time.Second {
								time.Sleep(time.Duration(random.ExpFloat64() * float64(30*time.Millisecond)))
								cost := 1 + random.Int64N(2)
								d, err := storecall.New(stack).Take(context.Background(), hotKey, limit, cost)
								if err != nil {
									t.Error(err)
									return
								}
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
				f := audited(limit, observed, replicas*most)
				if f.OverAdmitted > 0 || f.UnderAdmitted > 0 {
					t.Errorf("%d over-admitted, %d under-admitted", f.OverAdmitted, f.UnderAdmitted)
				}
				leased := limit.Algorithm != store.SlidingLog && limit.Algorithm != store.LeakyBucket
				if leased != (byLease > 0) {
					t.Errorf("%d of %d by leases", byLease, len(observed))
				}
				t.Logf("%d takes, %d by leases, %d calls", len(observed), byLease, slow.calls.Load())
			})
		})
	}
}
