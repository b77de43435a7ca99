package policyfile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fleet are processes that follow one store while somebody publishes.
type fleet struct {
	t       *testing.T
	open    func() store.Store
	table   admin.ConfigTable // the publisher's
	members []*member
	random  *rand.Rand

	mu   sync.Mutex
	good map[int64]bool // the counts of versions without a mistake

	takes, byNext, errs, mixed atomic.Int64
}

// member is one process.
type member struct {
	name, cache string
	backend     store.Store
	policies    *policyfile.Runtime
	end         func()
}

// version is the configuration number n: the count of both limits says which it is. The second limit of some versions counts
// otherwise than that of others.
func version(n int64) string {
	algorithm := [...]string{"fixed-window", "token-bucket", "sliding-log"}[n%3]
	return fmt.Sprintf("policies:\n  llm:\n    limits:\n      - {name: one, by: [team], limit: 'fixed-window:%d/%s'}\n"+
		"      - {name: two, by: [team], limit: '%s:%d/1h'}\n", 100_000+n, redistest.LongPeriod(), algorithm, 100_000+n)
}

// start starts a process.
func (f *fleet) start(m *member) {
	f.t.Helper()
	m.backend = f.open()
	file, err := policyfile.Follow(context.Background(), m.backend, policyfile.Published{Process: m.name, Cache: m.cache})
	if err != nil {
		f.t.Fatalf("%s does not start: %v", m.name, err)
	}
	if m.policies, err = policyfile.NewRuntime(file, m.backend); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.policies.Watch(ctx, 10*time.Millisecond, nil) })
	for n := range 2 {
		running.Go(func() { f.take(ctx, m, uint64(n)) })
	}
	m.end = func() {
		cancel()
		running.Wait()
		m.policies.Close()
		m.backend.Close()
	}
}

// take takes as long as ctx lasts, and checks that each call is decided by one sound version alone.
func (f *fleet) take(ctx context.Context, m *member, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		team := fmt.Sprint("team-", random.IntN(50))
		call, err := m.policies.Call("llm", policy.Attributes{"team": team}, 1)
		if err != nil {
			f.t.Error(err)
			return
		}
		f.check(m, call.Requests)
		if _, err := call.Limits.Take(ctx, call.Requests...); err != nil { // a failover
			if ctx.Err() == nil && !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrOutcomeUnknown) &&
				!errors.Is(err, limiter.ErrRefused) && !errors.Is(err, limiter.ErrGaveUp) {
				f.t.Errorf("%s: a take fails with %v", m.name, err)
				return
			}
			f.errs.Add(1)
			time.Sleep(time.Millisecond)
			continue
		}
		f.takes.Add(1)
	}
}

// check checks that requests are those of one version.
func (f *fleet) check(m *member, requests []limiter.Request) {
	one, two := requests[0].Limit(), requests[1].Limit()
	n := one.Count - 100_000
	f.mu.Lock()
	good := f.good[n]
	f.mu.Unlock()
	want := [...]limiter.Algorithm{limiter.FixedWindow, limiter.TokenBucket, limiter.SlidingLog}[((n%3)+3)%3]
	if len(requests) != 2 || one.Count != two.Count || two.Algorithm != want || one.Name != "llm/one" ||
		store.WithoutNext(two.Name) != "llm/two" || !good {
		if f.mixed.Add(1) == 1 {
			f.t.Errorf("%s decides by %v and %v", m.name, one, two)
		}
	}
	if strings.HasSuffix(two.Name, store.NextSuffix) {
		f.byNext.Add(1)
	}
}

// change makes a change of what is published; without an answer of the store nothing is known.
func (f *fleet) change(make func(s *published.State) admin.ConfigChange) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := published.Read(ctx, f.table)
	if err != nil && (s == nil || s.Was == "") {
		return err
	}
	c := make(s)
	if c.Head == "" {
		return nil // there is nothing to do
	}
	_, err = f.table.PublishConfig(ctx, c)
	return err
}

// step does something that people do.
func (f *fleet) step(n int64) {
	isGood := func() {
		f.mu.Lock()
		f.good[n] = true
		f.mu.Unlock()
	}
	v := &published.Version{By: "anna", Reason: "a test", Text: []byte(version(n))}
	canary := published.Canary{}
	if f.random.IntN(2) == 0 {
		canary.Share, canary.By = 1+f.random.IntN(policy.WholeShare), "team"
	}
	f.change(func(s *published.State) admin.ConfigChange {
		switch f.random.IntN(10) {
		case 0: // a broken version
			v.Text = []byte(strings.Replace(version(n), "limit:", "limt:", 1))
			return s.Next(v)
		case 1: // a broken next version
			v.Text = []byte(strings.Replace(version(n), "limit:", "limt:", 1))
			if s.Head.Version > 0 {
				return s.Try(v, canary)
			}
		case 2: // a record that no publisher wrote
			c := s.Next(v)
			c.Record = "spoilt"
			return c
		case 3, 4, 5:
			if s.Head.Version > 0 {
				isGood()
				return s.Try(v, canary)
			}
		case 6:
			if s.Head.Next.Exists() {
				return s.Promote(v)
			}
		case 7:
			if s.Head.Next.Exists() {
				return s.Withdraw(v)
			}
		}
		isGood()
		return s.Next(v)
	})
}

// settled waits until each process has what the store says is in force.
func (f *fleet) settled(what string) {
	f.t.Helper()
	var missing string
	for begun := time.Now(); time.Since(begun) < redistest.Patience; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := published.Read(ctx, f.table)
		processes, err2 := published.Processes(ctx, f.table)
		cancel()
		if missing = fmt.Sprint(err, err2); errors.Join(err, err2) != nil {
			continue
		}
		names := map[string]bool{}
		for _, p := range processes {
			if p.Version == s.Head.Version && p.Hash == s.Head.Hash && p.Next == s.Head.Next.Version && p.Refused == 0 {
				names[p.Name] = true
			}
		}
		if missing = fmt.Sprintf("%+v is in force, and there are %+v", s.Head, processes); len(names) == len(f.members) {
			return
		}
	}
	f.t.Fatalf("%s: %s", what, missing)
}

// used returns what a team has in use of the first limit.
func (f *fleet) used(team string) int64 {
	f.t.Helper()
	call, err := f.members[0].policies.Call("llm", policy.Attributes{"team": team}, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	decisions, err := call.Limits.Peek(context.Background(), call.Requests...)
	if err != nil {
		f.t.Fatal(err)
	}
	return decisions.At(0).Used
}

// While somebody publishes, tries, promotes and withdraws versions, good and broken ones, processes restart and a master fails
// over, each call is decided by one sound version alone. Afterwards all processes have the last version, and a rollback loses
// nothing that was used.
func TestAFleetDecidesByOneVersionAtATime(t *testing.T) {
	tier.Full(t, "four processes follow what is published through a failover, which takes half a minute")
	sentinel := redistest.StartSentinel(t)
	open := func() store.Store {
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: sentinel.Addrs(),
			MaxRetries: -1, DisableIdentity: true})
		backend, err := redisstore.New(client)
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
	publisher := open()
	defer publisher.Close()
	f := &fleet{t: t, open: open, good: map[int64]bool{}, random: rand.New(rand.NewPCG(1, 2))}
	f.table, _ = admin.ConfigTableOf(publisher)
	f.good[1] = true
	if err := f.change(func(s *published.State) admin.ConfigChange {
		return s.Next(&published.Version{By: "anna", Reason: "first", Text: []byte(version(1))})
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		m := &member{name: fmt.Sprint("checkout-", i), cache: filepath.Join(t.TempDir(), "kept")}
		f.members = append(f.members, m)
		f.start(m)
		defer func() { m.end() }()
	}
	const steps, failover = 60, 30
	for n := range int64(steps) {
		if n == failover {
			old, err := sentinel.KillMaster()
			if err != nil {
				t.Fatal(err)
			}
			for k := range int64(5) { // meanwhile somebody goes on
				f.step(steps + 10 + k)
			}
			if err := sentinel.WaitFailover(old); err != nil {
				t.Fatal(err)
			}
		}
		f.step(2 + n)
		if n%7 == 6 {
			m := f.members[f.random.IntN(len(f.members))]
			m.end()
			f.start(m)
		}
		for target := f.takes.Load() + 200; f.takes.Load() < target && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	last := &published.Version{By: "anna", Reason: "the last", Text: []byte(version(1000))}
	f.mu.Lock()
	f.good[1000] = true
	f.mu.Unlock()
	if err := f.change(func(s *published.State) admin.ConfigChange { return s.Next(last) }); err != nil {
		t.Fatal(err)
	}
	f.settled("after the last version")

	// A trial and its end, and a rollback, keep what was used.
	call, err := f.members[0].policies.Call("llm", policy.Attributes{"team": "alone"}, 5)
	if err == nil {
		_, err = call.Limits.Take(t.Context(), call.Requests...)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.good[1001] = true
	f.mu.Unlock()
	try := &published.Version{By: "anna", Reason: "a trial", Text: []byte(version(1001))}
	for _, step := range []struct {
		what string
		make func(s *published.State) admin.ConfigChange
	}{
		{"tried", func(s *published.State) admin.ConfigChange {
			return s.Try(try, published.Canary{Share: policy.WholeShare, By: "team"})
		}},
		{"withdrawn", func(s *published.State) admin.ConfigChange { return s.Withdraw(try) }},
		{"tried again", func(s *published.State) admin.ConfigChange { return s.Try(try, published.Canary{}) }},
		{"promoted", func(s *published.State) admin.ConfigChange { return s.Promote(try) }},
		{"rolled back", func(s *published.State) admin.ConfigChange {
			return s.Next(&published.Version{By: "anna", Reason: "back", Of: last.Number, Text: last.Text})
		}},
	} {
		if err := f.change(step.make); err != nil {
			t.Fatal(err)
		}
		f.settled(step.what)
		if used := f.used("alone"); used != 5 {
			t.Errorf("%s: %d are in use, want 5", step.what, used)
		}
	}
	t.Logf("%d takes and %d calls by a next version, %d errors, %d by a mixture", f.takes.Load(), f.byNext.Load(), f.errs.Load(),
		f.mixed.Load())
	if f.byNext.Load() == 0 {
		t.Error("no next version has decided")
	}
}
