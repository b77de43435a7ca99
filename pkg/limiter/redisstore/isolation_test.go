package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// One master that hangs holds up callers of its own keys and nobody else. The same
// holds for a caller that sends its calls one by one.
func TestAHungMasterHoldsUpItsOwnKeysOnly(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: forever, PoolTimeout: forever,
		MaxRetries: -1})
	defer client.Close()
	backend, err := Own(client)
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(backend)
	limit := neverLapsing(1_000_000)
	healthy, hung := []string{}, []string{}
	for i := 0; len(healthy) < 64 || len(hung) < 8; i++ {
		subject := fmt.Sprintf("user:%d", i)
		owner, err := cluster.Owner(redisserver.SlotOf(subject))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Take(context.Background(), store.Key{Subject: subject}, limit, 1); err != nil {
			t.Fatal(err)
		}
		if owner == 0 {
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
				if _, err := l.Take(context.Background(), store.Key{Subject: healthy[i]}, limit, 1); err != nil {
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
		if !strings.Contains(err.Error(), cluster.Masters[0].Addr) || strings.Contains(err.Error(), cluster.Masters[1].Addr) {
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
	for name, options := range map[string]redis.Options{
		"ignores contexts": {ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever},
		"never times out":  {ReadTimeout: -1, WriteTimeout: -1, PoolTimeout: forever},
		"keeps contexts":   {ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever, ContextTimeoutEnabled: true},
	} {
		for whose, open := range map[string]func(redis.UniversalClient, ...Option) (*Store, error){"own": Own, "the application's": New} {
			t.Run(name+"/"+whose, func(t *testing.T) {
				options := options
				options.Addr, options.MaxRetries, options.DisableIdentity = server.Addr, -1, true
				patient, err := open(redis.NewClient(&options), WithBudget(forever))
				if err != nil {
					t.Fatal(err)
				}
				hasty, err := open(redis.NewClient(&options), WithBudget(10*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				key, limit := store.Key{Subject: "user:42"}, neverLapsing(1000)
				for _, backend := range []*Store{patient, hasty} { // so that there is a connection
					if _, err := storecall.New(backend).Take(context.Background(), key, limit, 1); err != nil && backend == patient {
						t.Fatal(err)
					}
				}
				server.Pause()
				defer server.Resume()
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				_, err = storecall.New(patient).Take(ctx, key, limit, 1)
				if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
					t.Errorf("the caller's own deadline: %v", err)
				}
				if _, err = storecall.New(hasty).Take(context.Background(), key, limit, 1); !store.IsAway(err) {
					t.Errorf("the store's budget: %v", err)
				}
				ctx, cancel = context.WithTimeout(context.Background(), forever)
				defer cancel()
				if _, err = storecall.New(hasty).Take(ctx, key, limit, 1); !store.IsAway(err) {
					t.Errorf("the store's budget, within the caller's deadline: %v", err)
				}
			})
		}
	}
}

// forgetful passes bytes between clients and a server, until it is told to forget the
// connections there are. Those then stay open and silent, as behind a router that has
// lost its table. New ones work.
type forgetful struct {
	net.Listener
	mu     sync.Mutex
	forget chan struct{} // closed to make the present connections silent
}

func startForgetful(t *testing.T, server string) *forgetful {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Listener: listener, forget: make(chan struct{})}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			f.mu.Lock()
			forgotten := f.forget
			f.mu.Unlock()
			t.Cleanup(func() { client.Close(); upstream.Close() })
			go pass(upstream, client, forgotten)
			go pass(client, upstream, forgotten)
		}
	}()
	return f
}

// pass copies until one side ends, which ends the other. Once forgotten is closed it
// swallows everything, and the end, too.
func pass(to, from net.Conn, forgotten chan struct{}) {
	bytes := make([]byte, 64<<10)
	for {
		n, err := from.Read(bytes)
		select {
		case <-forgotten:
			if err != nil {
				return
			}
			continue
		default:
		}
		if _, failed := to.Write(bytes[:n]); err != nil || failed != nil {
			to.Close()
			return
		}
	}
}

func (f *forgetful) forgetAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.forget)
	f.forget = make(chan struct{})
}

// Connections that fall silent cost the callers that wait on them, and nobody behind
// them: also with a client that never times out.
func TestSilentConnectionsCostTheirOwnCallersOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := startForgetful(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr().String(), ReadTimeout: -1, PoolTimeout: forever, MaxRetries: -1,
		DisableIdentity: true})
	defer client.Close()
	backend, err := Own(client, WithBudget(forever))
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(backend)
	key, limit := store.Key{Subject: "user:42"}, neverLapsing(1_000_000)
	if _, err := l.Take(context.Background(), key, limit, 1); err != nil {
		t.Fatal(err)
	}
	server.Pause() // so that as many connections as are used at once are there
	opened := enter(lanes.InFlight, func(context.Context, int) error {
		_, err := l.Take(context.Background(), key, limit, 1)
		return err
	})
	awaitState(backend, "", lanes.InFlight, 0)
	server.Resume()
	opened.callers.Wait()
	proxy.forgetAll()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	waiting := enterWith(ctx, cancel, 64, func(ctx context.Context, _ int) error {
		_, err := l.Take(ctx, key, limit, 1)
		return err
	})
	defer waiting.left()
	<-ctx.Done()
	for range 64 { // they have all the time there is
		if _, err := l.Take(context.Background(), key, limit, 1); err != nil {
			t.Error(err)
		}
	}
}

// hookThat is a hook that does something first.
type hookThat func()

func (h hookThat) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hookThat) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h(); return next(ctx, cmd) }
}
func (h hookThat) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h(); return next(ctx, cmds) }
}

// A hook that panics fails the calls it was for, as errors, and leaves the store as it
// was: however often, and also where it was there before the store.
func TestAPanickingHookFailsItsOwnCallsOnly(t *testing.T) {
	server := redistest.Start(t)
	var mu sync.Mutex
	left := 0
	panicking := hookThat(func() {
		mu.Lock()
		defer mu.Unlock()
		if left > 0 {
			left--
			panic("a bug")
		}
	})
	for _, early := range []bool{true, false} {
		client := server.Client()
		if early {
			client.AddHook(panicking)
		}
		backend, err := Own(client)
		if err != nil {
			t.Fatal(err)
		}
		if !early {
			client.AddHook(panicking)
		}
		l := storecall.New(backend)
		take := func(ctx context.Context, i int) error {
			_, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("user:%d", i)}, neverLapsing(1000), 1)
			return err
		}
		if err := take(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		left = 4 * lanes.InFlight
		failed := enter(1000, take)
		failed.callers.Wait()
		n := 0
		for _, err := range failed.errs {
			if err != nil {
				n++
				if !strings.Contains(err.Error(), "a bug") || store.IsAway(err) && !errors.Is(err, store.ErrOutcomeUnknown) {
					t.Errorf("early %v: %v", early, err)
				}
			}
		}
		if n == 0 {
			t.Errorf("early %v: no call met the bug", early)
		}
		mu.Lock()
		left = 0
		mu.Unlock()
		for i := range lanes.InFlight + 1 {
			if err := take(context.Background(), i); err != nil {
				t.Errorf("early %v: afterwards %v", early, err)
			}
		}
		awaitState(backend, "", 0, 0)
	}
}

// Tens of thousands of callers that wait for a server which hangs leave together, and
// nothing of them stays behind.
func TestManyWaitingCallersLeaveTogether(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	server := redistest.Start(t)
	backend := openPatient(t, server)
	take := takingOf(backend)
	if err := take(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	const many = 50_000
	first := enter(lanes.InFlight, take)
	awaitState(backend, "", lanes.InFlight, 0)
	waiting := enter(many, take)
	awaitState(backend, "", lanes.InFlight, many)
	for _, err := range waiting.left() {
		if !errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
	}
	awaitState(backend, "", lanes.InFlight, 0)
	server.Resume()
	first.callers.Wait()
	charged := 0
	everything, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	awaitState(backend, "", 0, 0)
	for entry, err := range backend.Scan(context.Background(), admin.Query{Subjects: everything}) {
		if err != nil {
			t.Fatal(err)
		}
		charged += int(entry.Decision.Used)
	}
	if charged != 1+lanes.InFlight {
		t.Errorf("%d were charged, want %d: nothing of those that left the queue", charged, 1+lanes.InFlight)
	}
}

// A server that goes and comes back a hundred times under a storm of callers leaves no
// goroutine behind, and serves all in the end.
func TestStormsOfConnectionsLeaveNothingBehind(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	server := redistest.Start(t)
	proxy := startForgetful(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr().String(), ReadTimeout: forever, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true})
	defer client.Close()
	backend, err := Own(client)
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(backend)
	take := func(ctx context.Context, i int) error {
		_, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("user:%d", i)}, neverLapsing(1_000_000), 1)
		return err
	}
	calm := func() int {
		awaitState(backend, "", 0, 0)
		return runtime.NumGoroutine()
	}
	if err := take(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	before := calm()
	for range 100 {
		server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		storm := enter(64, take)
		storm.callers.Wait()
	}
	for i := range 64 {
		if err := take(context.Background(), i); err != nil {
			t.Error(err)
		}
	}
	most := before + 2*client.Options().PoolSize // the proxy has two for each connection
	for deadline := time.Now().Add(redistest.Patience); calm() > most; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, and %d before", calm(), before)
		}
	}
}

// A caller that leaves a take over several slots does not wait for what is given back,
// which goes on without it.
func TestGivingBackGoesOnWithoutTheCaller(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000") // the others go on
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: forever, PoolTimeout: forever,
		MaxRetries: -1})
	defer client.Close()
	backend, err := Own(client)
	if err != nil {
		t.Fatal(err)
	}
	l := storecall.New(backend)
	var reqs []store.Request
	for i, owner := 0, 0; owner < 2; i++ {
		subject := fmt.Sprintf("user:%d", i)
		if on, err := cluster.Owner(redisserver.SlotOf(subject)); err != nil {
			t.Fatal(err)
		} else if on == owner {
			reqs = append(reqs, store.Request{Key: store.Key{Subject: subject}, Limit: neverLapsing(1000), Cost: 1})
			owner++
		}
	}
	if _, err := l.TakeAll(context.Background(), reqs...); err != nil {
		t.Fatal(err)
	}
	storeKey := admin.OwnLayout(store.DefaultPrefix).StoreKey(reqs[1].Key)
	cluster.Masters[1].Pause()
	defer cluster.Masters[1].Resume()
	result := make(chan error)
	// Long enough for the first to be charged. No client notices that a context is cancelled.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	go func() {
		_, err := l.TakeAll(ctx, reqs...)
		result <- err
	}()
	awaitState(backend, storeKey, 1, 0) // the first is charged by now
	cluster.Masters[0].Pause()
	if err := <-result; !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, store.ErrOutcomeUnknown) || store.IsAway(err) {
		t.Errorf("%v; want an ErrGaveUp and ErrOutcomeUnknown", err)
	}
	cluster.Masters[0].Resume()
	backend.givingBack.Wait(forever)
	if d, err := l.Peek(context.Background(), reqs[0].Key, reqs[0].Limit, 1); err != nil || d.Used != 1 {
		t.Errorf("%d used (%v) of what was given back, want 1", d.Used, err)
	}
}
