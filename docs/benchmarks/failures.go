package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The service for the failures: some replicas with callers, which all send a few requests more than their limit.
const (
	failureReplicas = 2
	failureCallers  = 16 // per replica
	failureKeys     = 10
	failureLimit    = 200
	failurePause    = 5 * time.Millisecond // of a caller, between calls
	failureBudget   = 200 * time.Millisecond
	// How long the store is healthy, away, and healthy again.
	failureBefore, failureDuring, failureAfter = 300 * time.Millisecond, 1500 * time.Millisecond, 700 * time.Millisecond
)

// site is a store with a failure.
type site struct {
	// client makes a client of the store.
	client func() redis.UniversalClient
	// begin begins the failure and end ends it.
	begin, end func() error
	stop       func()
	// forgets: the failure can lose charges.
	forgets bool
}

// failures are all failures of a store.
func failures() []failure {
	return []failure{
		{"paused (SIGSTOP)", onServer(func(p *redistest.Process) (begin, end func() error) {
			return func() error { p.Pause(); return nil }, func() error { p.Resume(); return nil }
		}, false)},
		{"killed and started again, empty", onServer(func(p *redistest.Process) (begin, end func() error) {
			return func() error { p.Kill(); return nil }, p.Restart
		}, true)},
		{"replies delayed by 300 ms", behindProxy(redistest.Fault{Delay: 300 * time.Millisecond})},
		{"replies lost", behindProxy(redistest.Fault{Drop: true})},
		{"replies cut in the middle", behindProxy(redistest.Fault{Cut: 3})},
		{"connections refused", behindProxy(redistest.Fault{Refuse: true})},
		{"failover by Sentinels", withSentinels},
		{"failover of one of three masters of a Cluster", onFailingCluster},
	}
}

type failure struct {
	name   string
	launch func() (*site, error)
}

func onServer(harm func(*redistest.Process) (begin, end func() error), forgets bool) func() (*site, error) {
	return func() (*site, error) {
		server, err := redistest.Launch()
		if err != nil {
			return nil, err
		}
		begin, end := harm(server)
		return &site{client: clientOf(server.Addr), begin: begin, end: end, stop: server.Stop, forgets: forgets}, nil
	}
}

func clientOf(addr string) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	}
}

func behindProxy(fault redistest.Fault) func() (*site, error) {
	return func() (*site, error) {
		server, err := redistest.Launch()
		if err != nil {
			return nil, err
		}
		proxy, err := redistest.LaunchProxy(server.Addr)
		if err != nil {
			server.Stop()
			return nil, err
		}
		return &site{
			client: clientOf(proxy.Addr),
			begin:  func() error { proxy.Suffer(fault); return nil },
			end:    func() error { proxy.Heal(); return nil },
			stop:   func() { proxy.Stop(); server.Stop() },
		}, nil
	}
}

func withSentinels() (*site, error) {
	s, err := redistest.LaunchSentinel()
	if err != nil {
		return nil, err
	}
	var old *redistest.Process
	return &site{
		client: func() redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: redistest.MasterName, SentinelAddrs: s.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
			})
		},
		begin:   func() (err error) { old, err = s.KillMaster(); return err },
		end:     func() error { return s.WaitFailover(old) },
		stop:    s.Stop,
		forgets: true, // replication is asynchronous
	}, nil
}

func onFailingCluster() (*site, error) {
	c, err := redistest.LaunchClusterWithReplicas()
	if err != nil {
		return nil, err
	}
	return &site{
		client: func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1,
				DialerRetries: 1})
		},
		begin:   func() error { c.Masters[0].Kill(); return nil },
		end:     func() error { return c.Failover(0) },
		stop:    c.Stop,
		forgets: true,
	}, nil
}

// service counts the results of the callers of all replicas together.
type service struct {
	mu       sync.Mutex
	by       map[store.Decider]int
	failed   int
	unknown  int // of the calls without an answer of the store
	admitted map[string]int
	stored   map[string]int  // those of them that the store itself allowed
	latency  []time.Duration // during the failure
	away     bool
}

// replica makes the layers of one replica.
func (s *service) replica(client redis.UniversalClient, policy store.FailurePolicy, breaker bool) (*storecall.Caller, error) {
	var backend store.Store
	backend, err := redisstore.Own(client, redisstore.WithBudget(failureBudget))
	if err != nil {
		return nil, err
	}
	if breaker {
		backend = layers.WithBreaker(backend, layers.Breaker{Pause: 100 * time.Millisecond, MaxPause: 400 * time.Millisecond})
	}
	return storecall.New(layers.WithFailure(backend, layers.Failure{Policy: policy, OnFailure: func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(err, store.ErrOutcomeUnknown) {
			s.unknown++
		}
	}})), nil
}

func failureLimitOf() store.Limit {
	return store.Limit{Algorithm: store.FixedWindow, Count: failureLimit, Period: store.MaxPeriod}
}

// ask makes one call.
func (s *service) ask(l *storecall.Caller, subject string) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	begun := time.Now()
	d, err := l.Take(context.Background(), store.Key{Subject: subject}, failureLimitOf(), 1)
	took := time.Since(begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	if away {
		s.latency = append(s.latency, took)
	}
	switch {
	case err != nil:
		s.failed++
		if errors.Is(err, store.ErrOutcomeUnknown) {
			s.unknown++
		}
		return
	case d.Allowed:
		s.admitted[subject]++
		if d.DecidedBy == store.DecidedByStore {
			s.stored[subject]++
		}
	}
	s.by[d.DecidedBy]++
}

// suffer runs the service through a failure.
func suffer(f failure, policy store.FailurePolicy, breaker bool) (s *service, charged int, err error) {
	at, err := f.launch()
	if err != nil {
		return nil, 0, err
	}
	defer at.stop()
	s = &service{by: map[store.Decider]int{}, admitted: map[string]int{}, stored: map[string]int{}}
	stopped, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for range failureReplicas {
		client := at.client()
		defer client.Close()
		l, err := s.replica(client, policy, breaker)
		if err != nil {
			return nil, 0, err
		}
		for caller := range failureCallers {
			callers.Go(func() {
				for n := caller; stopped.Err() == nil; n++ {
					s.ask(l, fmt.Sprintf("user:%d", n%failureKeys))
					time.Sleep(failurePause)
				}
			})
		}
	}
	time.Sleep(failureBefore)
	s.setAway(true)
	if err := at.begin(); err != nil {
		return nil, 0, err
	}
	time.Sleep(failureDuring)
	if err := at.end(); err != nil {
		return nil, 0, err
	}
	s.setAway(false)
	time.Sleep(failureAfter)
	stop()
	callers.Wait()
	if at.forgets {
		return s, -1, nil
	}
	charged, err = chargedAt(at)
	return s, charged, err
}

func (s *service) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// chargedAt returns all that the store has charged.
func chargedAt(at *site) (charged int, err error) {
	client := at.client()
	defer client.Close()
	backend, err := redisstore.Own(client)
	if err != nil {
		return 0, err
	}
	for i := range failureKeys {
		d, err := storecall.New(backend).Peek(context.Background(), store.Key{Subject: fmt.Sprintf("user:%d", i)}, failureLimitOf(), 1)
		if err != nil {
			return 0, err
		}
		charged += int(d.Used)
	}
	return charged, nil
}

// beyond returns how many requests were allowed above the limit, for the worst key, and the bound for the policy.
func (s *service) beyond(policy store.FailurePolicy) (worst int, bound string) {
	for _, n := range s.admitted {
		worst = max(worst, n-failureLimit)
	}
	switch policy {
	case store.AllowOnError:
		return worst, "none"
	case store.LocalOnError:
		return worst, fmt.Sprint(failureReplicas * store.DefaultShare.Of(failureLimitOf()).Count)
	default:
		return worst, "0"
	}
}

// ledger says whether the store charged what it answered, and no more than it may have.
func (s *service) ledger(charged int) string {
	stored := 0
	for _, n := range s.stored {
		stored += n
	}
	switch {
	case charged < 0:
		return "-"
	case stored <= charged && charged <= stored+s.unknown:
		return fmt.Sprintf("%d ≤ %d ≤ %d", stored, charged, stored+s.unknown)
	}
	return fmt.Sprintf("**wrong**: %d, %d, %d", stored, charged, stored+s.unknown)
}

// quantile returns a quantile of sorted latencies.
func quantile(sorted []time.Duration, of float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	value := sorted[min(len(sorted)-1, int(of*float64(len(sorted))))]
	return fmt.Sprintf("%.1f ms", float64(value.Microseconds())/1000)
}

func failuresSection(ctx context.Context, _ plan, out io.Writer) error {
	logging.Disable() // otherwise each failed dial prints a line
	fmt.Fprintf(out, "\n### Failures: what callers saw\n")
	for _, f := range failures() {
		rows := [][]string{{
			"policy", "decided by the store", "locally", "by the policy", "errors", "outcome unknown", "p50", "p99", "worst",
			"let in beyond the limit", "bound", "answered ≤ charged ≤ answered + unknown",
		}}
		for _, policy := range []store.FailurePolicy{store.FailOnError, store.AllowOnError, store.DenyOnError, store.LocalOnError} {
			for _, breaker := range []bool{false, true} {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				name := policy.String()
				if breaker {
					name += ", breaker"
				}
				progress("failure: %s: %s", f.name, name)
				s, charged, err := suffer(f, policy, breaker)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", f.name, name, err)
				}
				slices.Sort(s.latency)
				worst, bound := s.beyond(policy)
				if charged < 0 && policy != store.AllowOnError {
					bound += " and what the store forgot"
				}
				rows = append(rows, []string{
					name, thousands(float64(s.by[store.DecidedByStore])), thousands(float64(s.by[store.DecidedByLocal])),
					thousands(float64(s.by[store.DecidedByFailurePolicy])), thousands(float64(s.failed)), thousands(float64(s.unknown)),
					quantile(s.latency, 0.5), quantile(s.latency, 0.99), quantile(s.latency, 1), fmt.Sprint(worst), bound,
					s.ledger(charged),
				})
			}
		}
		fmt.Fprintf(out, "\n**%s**\n", f.name)
		table(out, rows...)
	}
	return nil
}
