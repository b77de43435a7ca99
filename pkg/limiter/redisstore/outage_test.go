package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ledger is what a service was answered, to be held against what was charged.
type ledger struct {
	mu      sync.Mutex
	by      map[store.Decider]int // calls allowed
	denied  map[store.Decider]int
	unknown int // calls that the store may have charged without saying so
	errs    []error
}

func newLedger() *ledger {
	return &ledger{by: map[store.Decider]int{}, denied: map[store.Decider]int{}}
}

// replaced takes an error that a failure policy replaced.
func (l *ledger) replaced(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(err, store.ErrOutcomeUnknown) {
		l.unknown++
	}
}

func (l *ledger) take(backend store.Store, key store.Key, limit store.Limit) {
	d, err := storecall.New(backend).Take(context.Background(), key, limit, 1)
	if err != nil {
		l.replaced(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.errs = append(l.errs, err)
	case d.Allowed:
		l.by[d.DecidedBy]++
	default:
		l.denied[d.DecidedBy]++
	}
}

// check holds the ledger against a sound store.
func (l *ledger) check(t *testing.T, sound store.Store, key store.Key, limit store.Limit) {
	t.Helper()
	d, err := storecall.New(sound).Peek(context.Background(), key, limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	allowed := l.by[store.DecidedByStore]
	if charged := int(d.Used); charged < allowed || charged > allowed+l.unknown {
		t.Errorf("%d were charged of %d allowed and %d whose outcome is not known", charged, allowed, l.unknown)
	}
}

// impatient gives its store little time, once it is told to.
type impatient struct {
	store.Store
	hasty atomic.Bool
}

func (s *impatient) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.hasty.Load() {
		var cancel context.CancelFunc
		ctx, cancel = store.BudgetContext(ctx, 5*time.Millisecond)
		defer cancel()
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// changes tells of a breaker.
type changes chan layers.BreakerState

func (c changes) await(t *testing.T, want layers.BreakerState) {
	t.Helper()
	for got := range c {
		if got == want {
			return
		}
	}
}

// While a server hangs each policy keeps its promise, with a breaker and without, and
// what was charged is what was answered. When it goes on, the first probe closes the
// breaker.
func TestPoliciesWhileTheServerHangs(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	const limit, replicas, takes = 40, 2, 60
	for _, policy := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError, store.LocalOnError} {
		t.Run(policy.String(), func(t *testing.T) {
			server := redistest.Start(t)
			key, of := store.Key{Subject: "user:42"}, neverLapsing(limit)
			ledger := newLedger()
			var clockMu sync.Mutex
			now := time.Unix(1_700_000_000, 0)
			clock := func() time.Time {
				clockMu.Lock()
				defer clockMu.Unlock()
				return now
			}
			var stacks []store.Store
			var told []changes
			var budgets []*impatient
			for range replicas {
				backend, err := Own(server.Client(), WithBudget(forever))
				if err != nil {
					t.Fatal(err)
				}
				states, budgeted := make(changes, 1000), &impatient{Store: backend}
				broken := layers.WithBreaker(budgeted, layers.Breaker{
					Clock: clock, OnChange: func(c layers.BreakerChange) { states <- c.To },
				})
				failure := layers.Failure{Policy: policy, OnFailure: ledger.replaced}
				stacks, told, budgets = append(stacks, layers.WithFailure(broken, failure)), append(told, states),
					append(budgets, budgeted)
			}
			for i, stack := range stacks { // so that there are connections
				ledger.take(stack, key, of)
				budgets[i].hasty.Store(true)
			}
			server.Pause()
			for range takes {
				for _, stack := range stacks {
					ledger.take(stack, key, of)
				}
			}
			for _, states := range told {
				states.await(t, layers.BreakerOpen)
			}
			asked := replicas * takes
			shares := replicas * int(store.DefaultShare.Of(of).Count)
			for what, ok := range map[string]bool{
				"fail":  len(ledger.errs) == asked,
				"allow": ledger.by[store.DecidedByFailurePolicy] == asked,
				"deny":  ledger.denied[store.DecidedByFailurePolicy] == asked,
				"local": ledger.by[store.DecidedByLocal] == shares && ledger.denied[store.DecidedByLocal] == asked-shares,
			} {
				if what == policy.String() && !ok {
					t.Errorf("allowed %v, denied %v, %d errors", ledger.by, ledger.denied, len(ledger.errs))
				}
			}
			for _, err := range ledger.errs {
				if !store.IsAway(err) {
					t.Errorf("%v", err)
				}
			}
			// The first call of each replica was sent, and the next four had no connection.
			if ledger.unknown < replicas || ledger.unknown > 5*replicas {
				t.Errorf("%d outcomes are not known; want at least %d, and what a breaker lets through", ledger.unknown, replicas)
			}
			server.Resume()
			patient, err := Own(server.Client(), WithBudget(forever))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := storecall.New(patient).Peek(context.Background(), key, of, 1); err != nil {
				t.Fatal(err)
			}
			for i, stack := range stacks {
				budgets[i].hasty.Store(false) // this machine may be busy
				for state := layers.BreakerOpen; state != layers.BreakerClosed; state = <-told[i] {
					if state == layers.BreakerOpen { // also after a probe that this machine was too busy for
						clockMu.Lock()
						now = now.Add(time.Minute)
						clockMu.Unlock()
						ledger.take(stack, key, of) // makes the breaker probe
					}
				}
				before := ledger.by[store.DecidedByStore]
				ledger.take(stack, key, of)
				if ledger.by[store.DecidedByStore] != before+1 {
					t.Errorf("after the first probe: %v, %v", ledger.by, ledger.errs)
				}
			}
			ledger.check(t, patient, key, of)
		})
	}
}

// A reply that is cut in the middle leaves the outcome unknown. Such a take is not sent
// again, not even by a client that tries three times.
func TestCutRepliesAreNotAskedForAgain(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	backend, err := Own(redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: 3, DisableIdentity: true}), WithBudget(forever))
	if err != nil {
		t.Fatal(err)
	}
	key, limit := store.Key{Subject: "user:42"}, neverLapsing(1000)
	ledger := newLedger()
	const times = 20
	for range times {
		proxy.Heal()
		ledger.take(backend, key, limit) // on a connection that stays
		proxy.Suffer(redistest.Fault{Cut: 3})
		ledger.take(backend, key, limit)
	}
	proxy.Heal()
	if ledger.by[store.DecidedByStore] != times || ledger.unknown != times {
		t.Errorf("%d allowed and %d not known of %d each: %v", ledger.by[store.DecidedByStore], ledger.unknown, times, ledger.errs)
	}
	ledger.check(t, backend, key, limit)
	if d, err := storecall.New(backend).Peek(context.Background(), key, limit, 1); err != nil || d.Used != 2*times {
		t.Errorf("%d were charged (%v); want each take once, %d", d.Used, err, 2*times)
	}
}

// While a master fails over, a local share answers for it, and never lets through more
// than it is. Then the store decides again.
func TestFailoverWithALocalShare(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]func(t *testing.T) (client redis.UniversalClient, kill, failOver func() error){
		"Sentinel": func(t *testing.T) (redis.UniversalClient, func() error, func() error) {
			s := redistest.StartSentinel(t)
			var old *redistest.Process
			kill := func() (err error) { old, err = s.KillMaster(); return err }
			return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: s.Addrs(),
					MaxRetries: -1}),
				kill, func() error { return s.WaitFailover(old) }
		},
		"Cluster": func(t *testing.T) (redis.UniversalClient, func() error, func() error) {
			c := redistest.StartClusterWithReplicas(t)
			slot, err := c.SlotOf("{user:42}")
			if err != nil {
				t.Fatal(err)
			}
			owner, err := c.Owner(slot)
			if err != nil {
				t.Fatal(err)
			}
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), MaxRetries: -1}),
				func() error { c.Masters[owner].Kill(); return nil }, func() error { return c.Failover(owner) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, kill, failOver := launch(t)
			defer client.Close()
			backend, err := Own(client)
			if err != nil {
				t.Fatal(err)
			}
			ledger := newLedger()
			stack := layers.WithFailure(layers.WithBreaker(backend,
				layers.Breaker{Pause: time.Millisecond, MaxPause: 10 * time.Millisecond}),
				layers.Failure{Policy: store.LocalOnError, OnFailure: ledger.replaced})
			key, limit := store.Key{Subject: "user:42"}, neverLapsing(1_000_000)
			ledger.take(stack, key, limit)
			if err := kill(); err != nil {
				t.Fatal(err)
			}
			small := neverLapsing(400)
			for range 200 {
				ledger.take(stack, key, small)
			}
			if err := failOver(); err != nil {
				t.Fatal(err)
			}
			if n := ledger.by[store.DecidedByLocal]; n < 1 || n > 100 || len(ledger.errs) > 0 {
				t.Errorf("%d let in locally, want at most 100: %v", n, ledger.errs)
			}
			for before := ledger.by[store.DecidedByStore]; ledger.by[store.DecidedByStore] == before; {
				ledger.take(stack, key, limit) // until the client has found the new master
			}
		})
	}
}

// A thousand outages leave no goroutine and no memory behind.
func TestAThousandOutagesOfAServerAndAClusterLeaveNothingBehind(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	cluster := redistest.StartCluster(t)
	options := redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}
	for name, test := range map[string]struct {
		client redis.UniversalClient
		outage func(take func())
	}{
		"single": {
			redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}),
			func(take func()) {
				proxy.Suffer(redistest.Fault{Refuse: true})
				take()
				proxy.Heal()
			},
		},
		"Cluster": {
			redis.NewClusterClient(&options),
			func(take func()) {
				for _, master := range cluster.Masters {
					admin := redis.NewClient(&redis.Options{Network: "unix", Addr: master.Socket, DisableIdentity: true})
					if err := admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
						t.Error(err)
					}
					admin.Close()
				}
				take()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer test.client.Close()
			backend, err := Own(test.client)
			if err != nil {
				t.Fatal(err)
			}
			ledger := newLedger()
			stack := layers.WithFailure(layers.WithBreaker(backend, layers.Breaker{Failures: 1, Pause: time.Microsecond,
				MaxPause: time.Microsecond}), layers.Failure{Policy: store.LocalOnError, OnFailure: ledger.replaced})
			limit := neverLapsing(1_000_000)
			takes := func() {
				var callers sync.WaitGroup
				for i := range 8 {
					callers.Go(func() { ledger.take(stack, store.Key{Subject: fmt.Sprintf("user:%d", i)}, limit) })
				}
				callers.Wait()
			}
			calm := func() (goroutines int, heap uint64) {
				for before := ledger.by[store.DecidedByStore]; ledger.by[store.DecidedByStore] < before+8; {
					takes()
				}
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return runtime.NumGoroutine(), m.HeapAlloc
			}
			for range 20 { // so that there is what stays
				test.outage(takes)
			}
			goroutines, heap := calm()
			for range 1000 {
				test.outage(takes)
			}
			if len(ledger.errs) > 0 {
				t.Errorf("%v", ledger.errs[0])
			}
			for tries := 0; ; tries++ {
				// The proxy and the client have some for each connection.
				after, more := calm()
				if after <= goroutines+4*8 && more <= heap+1<<20 {
					break
				}
				if tries == 1000 {
					t.Fatalf("%d goroutines and %d bytes, and %d and %d before", after, more, goroutines, heap)
				}
			}
		})
	}
}
