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

// answers is how long a process waits for an answer: far longer than a busy machine takes, and far shorter than
// [redistest.Patience], so that a lost answer does not hold up the test.
const answers = 10 * time.Second

// fleet are processes that follow one store while somebody publishes.
type fleet struct {
	t       *testing.T
	open    func() store.Store
	table   admin.ConfigTable // the publisher's
	members []*member
	random  *rand.Rand
	book    book
	sound   map[int64]bool // the versions without a mistake that were published
	// versions is how many versions were published, and broken how many of them were broken.
	versions, broken int

	holding     sync.RWMutex // is locked while nobody takes
	epoch       atomic.Int64 // names the teams
	takes, errs atomic.Int64
}

// member is one process.
type member struct {
	name, cache string
	recorder    *recorder
	policies    *policyfile.Runtime
	end         func()
}

// start starts a process.
func (f *fleet) start(m *member) {
	f.t.Helper()
	backend := f.open()
	table, _ := admin.ConfigTableOf(backend)
	m.policies = nil
	m.recorder = &recorder{Store: backend, ConfigTable: table, book: &f.book, inForce: func() string {
		if m.policies == nil {
			return ""
		}
		return m.policies.File().Name
	}}
	recorded := store.Wrap(m.recorder, backend)
	var file *policyfile.File
	var err error
	f.until(m.name+" starts", func() bool {
		file, err = policyfile.Follow(context.Background(), recorded,
			policyfile.Published{Process: m.name, Cache: m.cache, Timeout: answers})
		if err != nil && !errors.Is(err, limiter.ErrUnavailable) {
			f.t.Fatalf("%s does not start: %v", m.name, err)
		}
		return err == nil
	})
	if m.policies, err = policyfile.NewRuntime(file, recorded, limiter.Timeout(answers)); err != nil {
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
		recorded.Close()
	}
}

// take takes as long as ctx lasts. A take that has begun goes on, so that its outcome is known.
func (f *fleet) take(ctx context.Context, m *member, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	for ctx.Err() == nil {
		f.holding.RLock()
		team := fmt.Sprintf("team-%d-%d", f.epoch.Load(), random.IntN(10))
		call, err := m.policies.Call("llm", policy.Attributes{"team": team}, 1)
		if err == nil {
			_, err = call.Limits.Take(context.Background(), call.Requests...)
		}
		f.holding.RUnlock()
		switch {
		case err == nil:
			f.takes.Add(1)
			continue
		case !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrOutcomeUnknown) && !errors.Is(err, limiter.ErrRefused):
			f.t.Errorf("%s: a take fails with %v", m.name, err)
			return
		}
		f.errs.Add(1) // a failover
		time.Sleep(time.Millisecond)
	}
}

// change makes a change of what is published; without an answer of the store nothing is known.
func (f *fleet) change(timeout time.Duration, make func(ctx context.Context, s *published.State) admin.ConfigChange) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s, err := published.Read(ctx, f.table)
	if err != nil && (s == nil || s.Was == "") {
		return err
	}
	done, err := f.table.PublishConfig(ctx, make(ctx, s))
	if done {
		f.versions++
	}
	return err
}

// next publishes the version of a number.
func (f *fleet) next(n int64, reason string) func(context.Context, *published.State) admin.ConfigChange {
	f.sound[n] = true
	return func(_ context.Context, s *published.State) admin.ConfigChange {
		return s.Next(&published.Version{By: "anna", Reason: reason, Text: []byte(version(n))})
	}
}

// step does something that people do.
func (f *fleet) step(n int64) {
	v := &published.Version{By: "anna", Reason: "a test", Text: []byte(version(n))}
	do := f.random.IntN(8)
	before := f.versions
	err := f.change(time.Second, func(ctx context.Context, s *published.State) admin.ConfigChange {
		switch {
		case do == 0:
			v.Text = []byte(strings.Replace(version(n), "limit:", "limt:", 1))
			return s.Next(v)
		case do == 1: // a record that no publisher wrote
			c := s.Next(v)
			c.Record = "spoilt"
			return c
		case do == 2 && s.Before() > 0: // which may have a mistake
			if old, err := s.Fetch(ctx, f.table, s.Before()); err == nil {
				return s.Next(&published.Version{By: "anna", Reason: "back", Of: old.Number, Text: old.Text})
			}
		}
		return f.next(n, "a test")(ctx, s)
	})
	if err == nil && do <= 1 && f.versions > before {
		f.broken++
	}
}

// settled waits until each process has what the store says is in force, and returns how long it took.
func (f *fleet) settled(what string) time.Duration {
	f.t.Helper()
	var missing string
	begun := time.Now()
	for ; time.Since(begun) < redistest.Patience; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := published.Read(ctx, f.table)
		processes, err2 := published.Processes(ctx, f.table)
		cancel()
		if missing = fmt.Sprint(err, err2); errors.Join(err, err2) != nil {
			continue
		}
		names := map[string]bool{}
		for _, p := range processes {
			if p.Version == s.Head.Version && p.Hash == s.Head.Hash && p.Refused == 0 {
				names[p.Name] = true
			}
		}
		if missing = fmt.Sprintf("%+v is in force, and there are %+v", s.Head, processes); len(names) == len(f.members) {
			return time.Since(begun)
		}
	}
	f.t.Fatalf("%s: %s", what, missing)
	return 0
}

// publishLast publishes a version while the store is quiet. Each process has it in force at the end of the first look that begins
// afterwards, so a process that looks once a second has it within two.
func (f *fleet) publishLast(n int64) {
	f.t.Helper()
	if err := f.change(redistest.Patience, f.next(n, "the last")); err != nil {
		f.t.Fatal(err)
	}
	before := make([]int, len(f.members))
	for i, m := range f.members {
		before[i] = m.recorder.looked()
	}
	took := f.settled("after the last version")
	s, err := published.Read(f.t.Context(), f.table)
	if err != nil {
		f.t.Fatal(err)
	}
	name := fmt.Sprintf("published version %d", s.Head.Version)
	for i, m := range f.members {
		f.until(m.name+" looks again", func() bool {
			looks := m.recorder.from(before[i])
			for k := range looks {
				if k == 0 || looks[k-1].failed {
					continue
				}
				if looks[k].inForce != name {
					f.t.Fatalf("after look %d of %s, %s is in force, want %s", k, m.name, looks[k].inForce, name)
				}
				return true
			}
			return false
		})
	}
	f.t.Logf("all processes, which look every 10ms, report the last version after %v", took.Round(time.Millisecond))
}

// until waits until something is so.
func (f *fleet) until(what string, is func() bool) {
	f.t.Helper()
	for begun := time.Now(); !is() && !f.t.Failed(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > redistest.Patience {
			f.t.Fatalf("it does not happen: %s", what)
		}
	}
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

// servers are the Redis of a fleet.
type servers struct {
	client func() redis.UniversalClient
	// fail makes a master fail over, the first time the one of the configurations, which crashes: hold keeps takes away while it
	// does, so that all of them are on its replica. do is done before the replica has taken over.
	fail func(t *testing.T, time int, hold sync.Locker, do func())
}

func sentinels(t *testing.T) servers {
	sentinel := redistest.StartSentinel(t)
	return servers{
		client: func() redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: sentinel.Addrs(),
				MaxRetries: -1, DisableIdentity: true, ReadTimeout: answers})
		},
		fail: func(t *testing.T, time int, hold sync.Locker, do func()) {
			if time > 0 {
				return // there is one replica
			}
			hold.Lock()
			old, err := sentinel.KillMaster()
			hold.Unlock()
			if do(); err == nil {
				err = sentinel.WaitFailover(old)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	}
}

func cluster(t *testing.T) servers {
	c := redistest.StartClusterWithReplicas(t)
	slot, err := c.SlotOf("rl!{config}:head")
	if err != nil {
		t.Fatal(err)
	}
	owner, err := c.Owner(slot)
	if err != nil {
		t.Fatal(err)
	}
	return servers{
		client: func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), MaxRetries: -1, DisableIdentity: true,
				ReadTimeout: answers})
		},
		fail: func(t *testing.T, time int, hold sync.Locker, do func()) {
			if time > 0 { // in order, the next master, while takes go on
				do()
				if err := c.Failover((owner + time) % len(c.Masters)); err != nil {
					t.Fatal(err)
				}
				return
			}
			hold.Lock()
			err := c.KillMaster(owner)
			hold.Unlock()
			if do(); err == nil {
				err = c.Failover(owner)
			}
			if err == nil {
				err = c.Replicas[owner].Restart()
			}
			if err = errors.Join(err, c.WaitUsable()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// While somebody publishes fifty versions, good and broken ones, processes restart and masters fail over, each take
// is decided by one sound version alone, exactly as a model of that version decides. Afterwards all processes have the
// last version, and a rollback loses nothing that was used.
func TestAFleetDecidesByOneVersionAtATime(t *testing.T) {
	tier.Full(t, "four processes follow what is published through failovers, which takes half a minute")
	t.Run("Cluster", func(t *testing.T) { testAFleet(t, cluster(t)) })
	t.Run("Sentinel", func(t *testing.T) { testAFleet(t, sentinels(t)) })
}

func testAFleet(t *testing.T, servers servers) {
	f := &fleet{t: t, random: rand.New(rand.NewPCG(1, 2)), book: book{unknown: map[string]bool{}}, sound: map[int64]bool{}}
	f.open = func() store.Store {
		backend, err := redisstore.New(servers.client())
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}
	publisher := f.open()
	defer publisher.Close()
	f.table, _ = admin.ConfigTableOf(publisher)
	if err := f.change(redistest.Patience, f.next(1, "first")); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		m := &member{name: fmt.Sprint("checkout-", i), cache: filepath.Join(t.TempDir(), "kept")}
		f.members = append(f.members, m)
		f.start(m)
		defer func() { m.end() }()
	}
	const versions = 50
	failures, n := 0, int64(1)
	step := func() { n++; f.step(n) }
	for steps := 1; f.versions < versions && !t.Failed(); steps++ {
		if f.versions > versions/3*(failures+1) && failures < 2 {
			f.epoch.Add(1)
			servers.fail(t, failures, &f.holding, func() {
				for range 5 { // meanwhile somebody goes on
					step()
				}
			})
			failures++
			f.epoch.Add(1)
		}
		step()
		if steps%7 == 0 {
			m := f.members[f.random.IntN(len(f.members))]
			m.end()
			f.start(m)
			f.epoch.Add(1)
		}
		target := f.takes.Load() + 200
		f.until("takes go on", func() bool { return f.takes.Load() >= target })
	}
	f.publishLast(1000)

	// A rollback keeps what was used.
	call, err := f.members[0].policies.Call("llm", policy.Attributes{"team": "alone"}, 5)
	if err == nil {
		_, err = call.Limits.Take(t.Context(), call.Requests...)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = f.change(redistest.Patience, func(_ context.Context, s *published.State) admin.ConfigChange {
		return s.Next(&published.Version{By: "anna", Reason: "back", Of: s.Head.Version, Text: []byte(version(1000))})
	})
	if err != nil {
		t.Fatal(err)
	}
	f.settled("rolled back")
	if used := f.used("alone"); used != 5 {
		t.Errorf("after a rollback %d are in use, want 5", used)
	}
	f.holding.Lock()
	defer f.holding.Unlock()
	a := f.book.audit(t, f.sound)
	t.Logf("%d versions, %d of them broken; %d takes and %d errors; audited: %+v", f.versions, f.broken, f.takes.Load(), f.errs.Load(), a)
	if a.takes == 0 || a.denied == 0 || f.broken == 0 {
		t.Error("the audit has not seen everything")
	}
}
