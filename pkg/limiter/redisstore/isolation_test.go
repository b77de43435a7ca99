package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// One master that hangs holds up callers of its own keys and nobody else. The same
// holds for a caller that sends its calls one by one.
func TestAHungMasterHoldsUpItsOwnKeysOnly(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	client := redis.NewClusterClient(
		&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: forever, PoolTimeout: forever,
			MaxRetries: -1})
	defer client.Close()
	backend := newStore(t, client)
	l := storecall.New(backend)
	limit := yearly(1_000_000)
	var healthy, hung []string
	for i := 0; len(healthy) < 64 || len(hung) < 8; i++ {
		subject := fmt.Sprintf("user:%d", i)
		mustTake(t, l, store.Key{Subject: subject}, limit, 1)
		if master, _ := owner(t, cluster, subject); master == 0 {
			hung = append(hung, subject)
		} else {
			healthy = append(healthy, subject)
		}
	}
	cluster.Masters[0].Pause()
	defer cluster.Masters[0].Resume()
	takeHung := func(ctx context.Context, i int) error {
		_, err := l.Take(ctx, store.Key{Subject: hung[i%len(hung)]}, limit, 1)
		return err
	}
	key := admin.OwnLayout(store.DefaultPrefix).StoreKey(store.Key{Subject: hung[0]})
	first := enter(lanes.InFlight, takeHung)
	awaitState(backend, key, lanes.InFlight, 0)
	waiting := enter(300, takeHung)
	awaitState(backend, key, lanes.InFlight, 300)
	var callers sync.WaitGroup
	for i := range 64 { // they hang here if the sick master holds them up
		callers.Go(func() {
			for range 50 {
				if _, err := l.Take(ctx, store.Key{Subject: healthy[i]}, limit, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	for _, err := range waiting.left() {
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.Canceled) || store.IsAway(err) ||
			errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("a caller that left the queue was told %v", err)
		}
		if !strings.Contains(err.Error(), cluster.Masters[0].Addr) ||
			strings.Contains(err.Error(), cluster.Masters[1].Addr) {
			t.Errorf("%v; want the address of the master that hangs, and no other", err)
		}
	}
	cluster.Masters[0].Resume()
	first.callers.Wait()
	if err := errors.Join(first.errs...); err != nil {
		t.Errorf("once the master goes on: %v", err)
	}
}

// A client that ignores contexts keeps a caller no longer than the caller's context,
// and a store away no longer than the store's budget.
func TestADeadlineIsKeptWhateverTheClientDoes(t *testing.T) {
	server := redistest.Start(t)
	key, limit := store.Key{Subject: "user:42"}, yearly(1000)
	for name, options := range map[string]redis.Options{
		"ignores contexts": {ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever},
		// Whose only connection stays with the call that was given up.
		"has one connection": {ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever, PoolSize: 1},
		"never times out":    {ReadTimeout: -1, WriteTimeout: -1, PoolTimeout: forever},
		"keeps contexts": {ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever,
			ContextTimeoutEnabled: true},
	} {
		options.Addr, options.MaxRetries, options.DisableIdentity = server.Addr, -1, true
		for whose, open := range map[string]func(redis.UniversalClient, ...redisstore.Option) (
			*redisstore.Store, error){
			"own": redisstore.Own, "the application's": redisstore.New} {
			opened := func(budget time.Duration) *storecall.Caller {
				backend, err := open(redis.NewClient(&options), redisstore.WithBudget(budget))
				must(t, err)
				return storecall.New(backend)
			}
			patient, hasty := opened(forever), opened(10*time.Millisecond)
			mustTake(t, patient, key, limit, 1) // so that there is a connection
			hasty.Take(ctx, key, limit, 1)
			server.Pause()
			within := func(deadline time.Duration, l *storecall.Caller) error {
				ctx, cancel := context.WithTimeout(ctx, deadline)
				defer cancel()
				_, err := l.Take(ctx, key, limit, 1)
				return err
			}
			err := within(10*time.Millisecond, patient)
			if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
				t.Errorf("%s, %s: the caller's own deadline: %v", name, whose, err)
			}
			if err := within(forever, hasty); !store.IsAway(err) {
				t.Errorf("%s, %s: the store's budget, within the caller's deadline: %v", name, whose, err)
			}
			if _, err := hasty.Take(ctx, key, limit, 1); !store.IsAway(err) {
				t.Errorf("%s, %s: the store's budget: %v", name, whose, err)
			}
			server.Resume()
		}
	}
}

// A store on the client of an application is away after the default budget, whatever the client waits for.
func TestTheDefaultBudgetOnTheApplicationsClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Pause()
	t.Cleanup(server.Resume)
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-ctx.Done():
		case <-time.After(forever):
		}
		return nil, errors.New("nobody answers")
	}
	short := redisstore.DefaultTimeout / 4
	for name, client := range map[string]redis.UniversalClient{
		"reading": redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: forever}),
		"dialing": redis.NewClient(
			&redis.Options{Dialer: hang, DialTimeout: forever, ReadTimeout: short, WriteTimeout: short}),
		"a Cluster's node": redis.NewClusterClient(
			&redis.ClusterOptions{Addrs: []string{server.Addr}, ReadTimeout: forever}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend, err := redisstore.New(client)
			must(t, err)
			begun := time.Now()
			_, err = storecall.New(backend).Take(ctx, store.Key{Subject: "user:42"},
				yearly(1000), 1)
			if took := time.Since(begun); !store.IsAway(err) || took >= forever {
				t.Errorf("%v after %s, want a store that is away after %s", err, took, redisstore.DefaultTimeout)
			}
		})
	}
}

// Connections that fall silent cost the callers that wait on them, and nobody behind
// them: also with a client that never times out.
func TestSilentConnectionsCostTheirOwnCallersOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var silenced atomic.Int64 // so many connections are, as behind a router that has lost its table
	gate, err := redistest.NewGate(server.Addr, func() bool { return silenced.Add(-1) >= 0 })
	must(t, err)
	defer gate.Close()
	client := redis.NewClient(&redis.Options{Addr: gate.Addr, ReadTimeout: -1, PoolTimeout: forever, MaxRetries: -1,
		DisableIdentity: true})
	defer client.Close()
	backend := newStore(t, client, redisstore.WithBudget(forever))
	l := storecall.New(backend)
	key, limit := store.Key{Subject: "user:42"}, yearly(1_000_000)
	mustTake(t, l, key, limit, 1)
	server.Pause() // so that as many connections as are used at once are there
	opened := enter(lanes.InFlight, func(context.Context, int) error {
		_, err := l.Take(ctx, key, limit, 1)
		return err
	})
	awaitState(backend, "", lanes.InFlight, 0)
	server.Resume()
	opened.callers.Wait()
	silenced.Store(lanes.InFlight)

	second, cancel := context.WithTimeout(ctx, time.Second)
	waiting := enterWith(second, cancel, 64, func(ctx context.Context, _ int) error {
		_, err := l.Take(ctx, key, limit, 1)
		return err
	})
	defer waiting.left()
	<-second.Done()
	if left := silenced.Load(); left > 0 {
		t.Errorf("%d connections were not used", left)
	}
	for range 64 { // they have all the time there is
		if _, err := l.Take(ctx, key, limit, 1); err != nil {
			t.Error(err)
		}
	}
}

// panicsWhile is a hook that panics as long as a number lasts.
type panicsWhile struct {
	redisserver.PassHook
	left *atomic.Int64
}

func (h panicsWhile) meet() {
	if h.left.Add(-1) >= 0 {
		panic("a bug")
	}
}

func (h panicsWhile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.meet(); return next(ctx, cmd) }
}

func (h panicsWhile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h.meet(); return next(ctx, cmds) }
}

// A hook that panics fails the calls it was for, as errors, and leaves the store as it
// was: however often, and also where it was there before the store.
func TestAPanickingHookFailsItsOwnCallsOnly(t *testing.T) {
	server := redistest.Start(t)
	for _, early := range []bool{true, false} {
		client, panicking := server.Client(), panicsWhile{left: new(atomic.Int64)}
		if early {
			client.AddHook(panicking)
		}
		backend := newStore(t, client)
		if !early {
			client.AddHook(panicking)
		}
		take := takingOf(backend)
		must(t, take(ctx, 0))
		panicking.left.Store(4 * lanes.InFlight)
		n := 0
		for _, err := range enter(1000, take).wait() {
			if err != nil {
				n++
				if !strings.Contains(err.Error(), "a bug") || store.IsAway(err) &&
					!errors.Is(err, store.ErrOutcomeUnknown) {
					t.Errorf("early %v: %v", early, err)
				}
			}
		}
		if n == 0 {
			t.Errorf("early %v: no call met the bug", early)
		}
		panicking.left.Store(0)
		for i := range lanes.InFlight + 1 {
			if err := take(ctx, i); err != nil {
				t.Errorf("early %v: afterwards %v", early, err)
			}
		}
		awaitState(backend, "", 0, 0)
	}
}

// A caller that leaves a take over several slots does not wait for what is given back,
// which goes on without it. Closing the store waits for that.
func TestGivingBackGoesOnWithoutTheCaller(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	client := redis.NewClusterClient(
		&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: forever, PoolTimeout: forever,
			MaxRetries: -1})
	backend := newStore(t, client)
	l := storecall.New(backend)
	reqs := asking(subjectsOn(t, cluster, "user"), yearly(1000), yearly(1000))
	if _, err := l.TakeAll(ctx, reqs...); err != nil {
		t.Fatal(err)
	}
	storeKey := admin.OwnLayout(store.DefaultPrefix).StoreKey(reqs[1].Key)
	// Long enough for the first to be charged. No client notices that a context is cancelled.
	redistest.Patiently(t, 500*time.Millisecond, func(timeout time.Duration) error {
		cluster.Masters[1].Pause()
		defer cluster.Masters[1].Resume()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		result := make(chan error, 1)
		go func() {
			_, err := l.TakeAll(ctx, reqs...)
			result <- err
		}()
		for busy := 0; busy == 0; runtime.Gosched() { // the first is charged by then
			if busy, _, _ = backend.Load(storeKey); ctx.Err() != nil {
				return errors.New("the second was not asked in time")
			}
		}
		cluster.Masters[0].Pause()
		err := <-result
		cluster.Masters[0].Resume()
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, store.ErrOutcomeUnknown) || store.IsAway(err) {
			t.Errorf("%v; want an ErrGaveUp and ErrOutcomeUnknown", err)
		}
		return nil
	})
	must(t, backend.Close())
	after := newStore(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()}))
	defer after.Close()
	if d, err := storecall.New(after).Peek(ctx, reqs[0].Key, reqs[0].Limit, 1); err != nil ||
		d.Used != 1 {
		t.Errorf("%d used (%v) of what was given back, want 1", d.Used, err)
	}
}
