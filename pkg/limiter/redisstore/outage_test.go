package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ledger is what a service was answered, to be held against what was charged.
type ledger struct {
	mu   sync.Mutex
	by   map[store.Decider]int // calls allowed
	errs []error
}

func newLedger() *ledger { return &ledger{by: map[store.Decider]int{}} }

func (l *ledger) take(backend store.Store, key store.Key, limit store.Limit) {
	d, err := storecall.New(backend).Take(ctx, key, limit, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.errs = append(l.errs, err)
	case d.Allowed:
		l.by[d.DecidedBy]++
	}
}

// While a master fails over, a local share answers for it and never lets through more than it is. Then the store
// decides again, although no take is sent twice, and the breaker of the old master is not open for ever.
func TestFailoverWithALocalShare(t *testing.T) {
	t.Parallel()
	key := store.Key{Subject: "user:42"}
	for name, launch := range map[string]func(t *testing.T) (client redis.UniversalClient, kill, failOver func() error){
		"Sentinel": func(t *testing.T) (redis.UniversalClient, func() error, func() error) {
			s := redistest.StartSentinel(t)
			var old *redistest.Process
			options := redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: s.Addrs()}
			return redisserver.NewFailoverClient(options, redisstore.DefaultTimeout),
				func() (err error) { old, err = s.KillMaster(); return err },
				func() error { return s.WaitFailover(old) }
		},
		"Cluster": func(t *testing.T) (redis.UniversalClient, func() error, func() error) {
			c := redistest.StartClusterWithReplicas(t)
			owner, _ := owner(t, c, key.Subject)
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), MaxRetries: -1, DialerRetries: 1}),
				func() error { c.Masters[owner].Kill(); return nil }, func() error { return c.Failover(owner) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, kill, failOver := launch(t)
			backend := newStore(t, client)
			defer backend.Close()
			ledger := newLedger()
			var mu sync.Mutex
			states := map[string]store.BreakerState{}
			state := func(shard string) (s store.BreakerState, told bool) {
				mu.Lock()
				defer mu.Unlock()
				s, told = states[shard]
				return s, told
			}
			stack := layers.Stack(backend, layers.Layers{
				Failure: layers.Failure{Policy: store.LocalOnError, Fallback: memorystore.New()},
				Breaker: &store.Breaker{Pause: time.Millisecond, MaxPause: 10 * time.Millisecond},
				Env: layers.Env{Observer: &layers.Observer{
					OnBreaker: func(c store.BreakerChange) { mu.Lock(); defer mu.Unlock(); states[c.Shard] = c.To }}}})
			for range 2 { // the second is of a shard that is known
				ledger.take(stack, key, yearly(1_000_000))
			}
			old := backend.Shard(key)
			must(t, kill())
			for range 200 {
				ledger.take(stack, key, yearly(400))
			}
			if _, told := state(old); name == "Cluster" && !told {
				t.Error("the breaker of the master that was killed did not open")
			}
			must(t, failOver())
			if n := ledger.by[store.DecidedByLocal]; n < 1 || n > 100 || len(ledger.errs) > 0 {
				t.Errorf("%d let in locally, want at most 100: %v", n, ledger.errs)
			}
			for before := ledger.by[store.DecidedByStore]; ledger.by[store.DecidedByStore] == before; {
				ledger.take(stack, key, yearly(1_000_000)) // until the client has found the new master
			}
			if s, _ := state(old); s != store.BreakerClosed {
				t.Errorf("the breaker of the old master is %s", s)
			}
			if shard := backend.Shard(key); name == "Cluster" && shard == old {
				t.Errorf("the key is still on %s", shard)
			}
		})
	}
}

// Hundreds of outages leave no goroutine and no memory behind.
func TestOutagesLeaveNothingBehind(t *testing.T) {
	tier.Full(t, "outages in series, and servers that hang")
	server := redistest.Start(t)
	var refuses atomic.Bool
	client := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if refuses.Load() {
				return nil, errors.New("refused")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", server.Addr)
		}})
	backend := newStore(t, client)
	defer backend.Close()
	ledger := newLedger()
	stack := layers.Stack(backend, layers.Layers{
		Failure: layers.Failure{Policy: store.LocalOnError, Fallback: memorystore.New()},
		Breaker: &store.Breaker{Failures: 1, Pause: time.Microsecond, MaxPause: time.Microsecond}})
	takes := func() {
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				ledger.take(stack, store.Key{Subject: fmt.Sprintf("user:%d", i)}, yearly(1_000_000))
			})
		}
		callers.Wait()
	}
	outages := func(n int) {
		for i := range n {
			refuses.Store(i%2 == 0)
			server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			takes()
		}
	}
	calm := func() (goroutines int, heap uint64) {
		refuses.Store(false)
		for before := ledger.by[store.DecidedByStore]; ledger.by[store.DecidedByStore] < before+8; {
			takes()
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	outages(20) // so that there is what stays
	goroutines, heap := calm()
	outages(400)
	if len(ledger.errs) > 0 {
		t.Errorf("%v", ledger.errs[0])
	}
	if ledger.by[store.DecidedByLocal] == 0 {
		t.Error("there was no outage")
	}
	for tries := 0; ; tries++ {
		after, more := calm() // the client has some for each connection
		if after <= goroutines+4*8 && more <= heap+1<<20 {
			break
		}
		if tries == 1000 {
			t.Fatalf("%d goroutines and %d bytes, and %d and %d before", after, more, goroutines, heap)
		}
	}
}
