package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hastyFor gives its store little time for calls that ask for a subject, and counts those.
type hastyFor struct {
	store.Store
	mu      sync.Mutex
	subject string
	calls   int
}

func (s *hastyFor) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	hasty := slices.ContainsFunc(reqs, func(r store.Request) bool { return r.Key.Subject == s.subject })
	if hasty {
		s.calls++
	}
	s.mu.Unlock()
	if hasty {
		var cancel context.CancelFunc
		ctx, cancel = store.BudgetContext(ctx, 5*time.Millisecond)
		defer cancel()
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// about sets the subject and returns how many calls there were for the last.
func (s *hastyFor) about(subject string) (calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, s.subject, s.calls = s.calls, subject, 0
	return calls
}

// onEachMaster returns a key on each master.
func onEachMaster(t *testing.T, cluster *redistest.Cluster) (keys [3]store.Key) {
	t.Helper()
	for i, missing := 0, len(keys); missing > 0; i++ {
		subject := fmt.Sprintf("user:%d", i)
		slot, err := cluster.SlotOf("{" + subject + "}")
		if err != nil {
			t.Fatal(err)
		}
		owner, err := cluster.Owner(slot)
		if err != nil {
			t.Fatal(err)
		}
		if keys[owner].Subject == "" {
			keys[owner].Subject = subject
			missing--
		}
	}
	return keys
}

// While one master of a Cluster hangs, the keys of the others are decided by the store, and
// its own fail at once, or by a local share. When it goes on, a probe of it closes its
// breaker.
func TestOneMasterThatHangsIsNobodyElsesOutage(t *testing.T) {
	t.Parallel()
	// The others would stop, too, once they notice.
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	keys := onEachMaster(t, cluster)
	const sick, failures, rounds = 1, 5, 60
	for n, policy := range []store.FailurePolicy{store.FailOnError, store.LocalOnError} {
		t.Run(policy.String(), func(t *testing.T) {
			if err := cluster.WaitUsable(); err != nil { // after the last time
				t.Fatal(err)
			}
			backend, err := Own(redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1}),
				WithBudget(forever))
			if err != nil {
				t.Fatal(err)
			}
			defer backend.Close()
			for i := range keys {
				keys[i].Name = fmt.Sprint("limit", n)
			}
			var mu sync.Mutex
			now := time.Unix(1_700_000_000, 0)
			told := make(chan layers.BreakerChange, 10000)
			hasty := &hastyFor{Store: backend}
			broken := layers.WithBreaker(store.Wrap(hasty, backend), layers.Breaker{
				Failures: failures, Slow: time.Hour, OnChange: func(c layers.BreakerChange) { told <- c },
				Clock: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
			})
			ledger := newLedger()
			limits := storecall.New(layers.WithFailure(broken, layers.Failure{Policy: policy, OnFailure: ledger.replaced}))
			limit := neverLapsing(1_000_000)
			take := func(key store.Key) (store.Decider, error) {
				d, err := limits.Take(t.Context(), key, limit, 1)
				return d.DecidedBy, err
			}
			healthy := func() {
				t.Helper()
				for i, key := range keys {
					if by, err := take(key); i != sick && (err != nil || by != store.DecidedByStore) {
						t.Fatalf("a key of master %d: by %s, %v", i, by, err)
					}
				}
			}
			healthy() // so that there are connections
			cluster.Masters[sick].Pause()
			resume := sync.OnceFunc(cluster.Masters[sick].Resume)
			defer resume()
			hasty.about(keys[sick].Subject)
			for range rounds {
				healthy()
			}
			if c := <-told; c.To != layers.BreakerOpen || c.Shard != cluster.Masters[sick].Addr {
				t.Errorf("told that %s is %s", c.Shard, c.To)
			}
			by, err := take(keys[sick])
			if policy == store.LocalOnError && (err != nil || by != store.DecidedByLocal) ||
				policy == store.FailOnError && (!errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown)) {
				t.Errorf("a key of the master that hangs: by %s, %v", by, err)
			}
			// A call that needs it as well is not begun anywhere.
			both := []store.Request{{Key: keys[0], Limit: limit, Cost: 1}, {Key: keys[sick], Limit: limit, Cost: 1}}
			if err := broken.Decide(t.Context(), store.Take, both, make([]store.Decision, 2)); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("over two masters: %v", err)
			}
			if calls := hasty.about(""); calls != failures {
				t.Errorf("the master that hangs was asked %d times, want %d", calls, failures)
			}
			if len(told) > 0 {
				t.Errorf("told also of %+v", <-told)
			}

			resume()
			for closed := false; !closed; {
				mu.Lock()
				now = now.Add(time.Minute)
				mu.Unlock()
				take(keys[sick]) // makes the breaker probe
				for c := range told {
					if c.Shard != cluster.Masters[sick].Addr {
						t.Errorf("told that %s is %s", c.Shard, c.To)
					}
					if closed = c.To == layers.BreakerClosed; c.To != layers.BreakerHalfOpen {
						break
					}
				}
			}
			if by, err := take(keys[sick]); err != nil || by != store.DecidedByStore {
				t.Errorf("after the probe: by %s, %v", by, err)
			}
			if err := broken.Decide(t.Context(), store.Take, both, make([]store.Decision, 2)); err != nil {
				t.Errorf("over two masters, after the probe: %v", err)
			}
		})
	}
}

// The breaker of a master that was replaced is not open for ever.
func TestAFailoverForgetsTheBreakerOfTheOldMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterWithReplicas(t)
	keys := onEachMaster(t, cluster)
	backend, err := Own(redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	var mu sync.Mutex
	states := map[string]layers.BreakerState{}
	limits := storecall.New(layers.WithBreaker(backend, layers.Breaker{
		Pause: time.Millisecond, MaxPause: 10 * time.Millisecond, Slow: time.Hour,
		OnChange: func(c layers.BreakerChange) { mu.Lock(); defer mu.Unlock(); states[c.Shard] = c.To },
	}))
	take := func() error {
		_, err := limits.Take(t.Context(), keys[0], neverLapsing(1_000_000), 1)
		return err
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	old := cluster.Masters[0].Addr
	take() // of a shard that is known by now
	cluster.Masters[0].Kill()
	state := func() (s layers.BreakerState, told bool) {
		mu.Lock()
		defer mu.Unlock()
		s, told = states[old]
		return s, told
	}
	for range 100 { // more than open it
		take()
	}
	if _, told := state(); !told {
		t.Fatal("the breaker of the master that was killed did not open")
	}
	if err := cluster.Failover(0); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(redistest.Patience); take() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no take finds the new master")
		}
	}
	if s, _ := state(); s != layers.BreakerClosed {
		t.Errorf("the breaker of the old master is %s", s)
	}
	if shard := backend.Shard(keys[0]); shard != cluster.Masters[0].Addr {
		t.Errorf("the key is on %s, want %s", shard, cluster.Masters[0].Addr)
	}
}
