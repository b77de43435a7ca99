package policyfile_test

import (
	"context"
	"errors"
	"fmt"
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

// fewest is the count of version 0, so that the count of a limit says which version it is of.
const fewest = 20

// version is the configuration number n: the count of both limits says which it is.
func version(n int64) []byte {
	return fmt.Appendf(nil, "policies:\n  llm:\n    limits:\n      - {name: one, by: [team], limit: 'fixed-window:%d/%s'}\n"+
		"      - {name: two, by: [team], limit: 'sliding-log:%d/1h'}\n", fewest+n, redistest.LongPeriod(), fewest+n)
}

// fleet are processes that follow one store while somebody publishes.
type fleet struct {
	*testing.T
	open    func() store.Store
	table   *admin.Tables // the publisher's
	members []*member
	sound   sync.Map     // the versions without a mistake that were published
	holding sync.RWMutex // is locked while nobody takes
	takes   atomic.Int64
}

// member is one process.
type member struct {
	name, cache string
	policies    *policyfile.Runtime
	end         func()
}

// checked is the store of a process. Each take that reaches it is to be by one version, which is sound.
type checked struct {
	store.Store
	f *fleet
}

func (c checked) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	n := reqs[0].Limit.Count - fewest
	_, sound := c.f.sound.Load(n)
	isCheck := op == store.Peek && len(reqs) == 1 // whether the store is back
	if !sound || !isCheck && (len(reqs) != 2 || reqs[1].Limit.Count != fewest+n) {
		c.f.Errorf("%d limits decide, of version %d: %+v", len(reqs), n, reqs)
	}
	return c.Store.Decide(ctx, op, reqs, decisions)
}

// start starts a process.
func (f *fleet) start(m *member) {
	f.Helper()
	backend := f.open()
	backend = store.Wrap(checked{backend, f}, backend)
	var file *policyfile.File
	var err error
	f.until(m.name+" starts", func() bool {
		p := policyfile.Published{Process: m.name, Cache: m.cache, Timeout: answers}
		file, err = policyfile.Follow(context.Background(), backend, p)
		if err != nil && !errors.Is(err, limiter.ErrUnavailable) {
			f.Fatalf("%s does not start: %v", m.name, err)
		}
		return err == nil
	})
	if m.policies, err = policyfile.NewRuntime(file, backend, limiter.Timeout(answers)); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.policies.Watch(ctx, 10*time.Millisecond, nil) })
	running.Go(func() { f.take(ctx, m) })
	m.end = func() {
		cancel()
		running.Wait()
		m.policies.Close()
		backend.Close()
	}
}

// take takes as long as ctx lasts. A take that has begun goes on.
func (f *fleet) take(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		f.holding.RLock()
		_, err := m.policies.Take(context.Background(), "llm", policy.Attributes{"team": "all"}, 1)
		f.holding.RUnlock()
		switch {
		case err == nil:
			f.takes.Add(1)
		case !errors.Is(err, limiter.ErrUnavailable) && !errors.Is(err, limiter.ErrOutcomeUnknown) && !errors.Is(err, limiter.ErrRefused):
			f.Errorf("%s: a take fails with %v", m.name, err)
			return
		default:
			time.Sleep(time.Millisecond) // a failover
		}
	}
}

// change makes a change of what is published; without an answer of the store nothing is known.
func (f *fleet) change(make func(s *published.State) *admin.Change) error {
	ctx, cancel := context.WithTimeout(context.Background(), answers)
	defer cancel()
	s, err := published.Read(ctx, f.table)
	if err != nil && (s == nil || s.Was == "") {
		return err
	}
	_, err = f.table.Change(ctx, make(s))
	return err
}

// publish publishes version n; every third one is broken.
func (f *fleet) publish(n int64) error {
	v := &published.Version{By: "anna", Reason: "a test", Text: version(n)}
	if n%3 == 0 {
		v.Text = []byte(strings.Replace(string(v.Text), "limit:", "limt:", 1))
	} else {
		f.sound.Store(n, true)
	}
	return f.change(func(s *published.State) *admin.Change {
		change := s.Next(v)
		if n%6 == 0 {
			change.Set[0].Value = "spoilt" // which no publisher wrote
		}
		return change
	})
}

// settled waits until each process reports that it has in force what the store says.
func (f *fleet) settled() {
	f.Helper()
	f.until("all have the last version", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s, err := published.Read(ctx, f.table)
		processes, err2 := published.Processes(ctx, f.table)
		if errors.Join(err, err2) != nil {
			return false
		}
		names := map[string]bool{}
		for _, p := range processes {
			if p.Version == s.Head.Version && p.Hash == s.Head.Hash && p.Refused == 0 {
				names[p.Name] = true
			}
		}
		return len(names) == len(f.members)
	})
}

// until waits until something is so.
func (f *fleet) until(what string, is func() bool) {
	f.Helper()
	for begun := time.Now(); !is() && !f.Failed(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > redistest.Patience {
			f.Fatalf("it does not happen: %s", what)
		}
	}
}

// While somebody publishes versions, good and broken ones, processes restart and the master fails over, each take is decided by
// one sound version alone. Afterwards all processes have the last version, and a rollback loses nothing that was used.
func TestAFleetDecidesByOneVersionAtATime(t *testing.T) {
	tier.Full(t, "processes follow what is published through a failover")
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	f := &fleet{T: t, open: func() store.Store {
		backend, err := redisstore.New(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName,
			SentinelAddrs: sentinel.Addrs(), MaxRetries: -1, DisableIdentity: true, ReadTimeout: answers}), redisstore.WithBudget(answers))
		if err != nil {
			t.Fatal(err)
		}
		return backend
	}}
	publisher := f.open()
	defer publisher.Close()
	f.table, _ = admin.TablesOf(publisher)
	f.until("the first is published", func() bool { return f.publish(1) == nil })
	for i := range 3 {
		m := &member{name: fmt.Sprint("checkout-", i), cache: filepath.Join(t.TempDir(), "kept")}
		f.members = append(f.members, m)
		f.start(m)
		defer func() { m.end() }()
	}
	for n := int64(2); n < 20; n++ {
		if n == 10 {
			f.holding.Lock()
			old, err := sentinel.KillMaster()
			f.holding.Unlock()
			if err == nil {
				f.publish(11) // which nobody answers
				err = sentinel.WaitFailover(old)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f.publish(n)
		if n%5 == 0 {
			m := f.members[n/5%3]
			m.end()
			f.start(m)
		}
		target := f.takes.Load() + 100
		f.until("takes go on", func() bool { return f.takes.Load() >= target })
	}
	f.until("the last is published", func() bool { return f.publish(1000) == nil })
	f.settled()

	policies, alone := f.members[0].policies, policy.Attributes{"team": "alone"}
	if _, err := policies.Take(t.Context(), "llm", alone, 5); err != nil {
		t.Fatal(err)
	}
	err := f.change(func(s *published.State) *admin.Change {
		return s.Next(&published.Version{By: "anna", Reason: "back", Of: 1, Text: version(1)})
	})
	if err != nil {
		t.Fatal(err)
	}
	f.settled()
	d, err := policies.Take(t.Context(), "llm", alone, 1)
	if err != nil || d.At(0).Used != 6 || d.At(0).Remaining != fewest+1-6 {
		t.Errorf("after a rollback: %+v, %v", d, err)
	}
}
