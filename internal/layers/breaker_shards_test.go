package layers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shardedStore has a shard for each first letter of a subject, until moved says otherwise. Its clock is virtual.
type shardedStore struct {
	mu      sync.Mutex
	now     time.Time
	moved   map[string]string        // by letter
	sick    map[string]error         // by shard
	took    map[string]time.Duration // by shard
	asked   map[string]int           // by shard
	checks  chan []string            // the shards of each recovery check
	unnamed bool                     // errors do not name their shard
	hold    map[string]chan struct{} // by shard: an answer waits for it
	skips   bool                     // a denial does not need the shard that is away
}

func (s *shardedStore) Shard(key store.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shard(key)
}

func (s *shardedStore) shard(key store.Key) string {
	shard := key.Subject[:1]
	if to, moved := s.moved[shard]; moved {
		return to
	}
	return shard
}

func (s *shardedStore) Decide(_ context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var shards []string
	for _, req := range reqs {
		if shard := s.shard(req.Key); !slices.Contains(shards, shard) {
			shards = append(shards, shard)
		}
	}
	if op == store.Peek {
		defer func() { s.checks <- shards }()
	}
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: true}
	}
	for _, shard := range shards {
		s.asked[shard]++
		s.now = s.now.Add(s.took[shard])
		hold, err := s.hold[shard], s.sick[shard]
		if hold != nil {
			s.mu.Unlock()
			<-hold
			s.mu.Lock()
		}
		switch {
		case err == nil:
		case s.skips:
			for i := range reqs {
				decisions[i].Unguarded = s.shard(reqs[i].Key) == shard
			}
		case s.unnamed:
			return err
		default:
			return fmt.Errorf("it failed: %w", &store.ShardError{Shard: shard, Err: err})
		}
	}
	return nil
}

func (s *shardedStore) Close() error { return nil }

func (s *shardedStore) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// change changes the store.
func (s *shardedStore) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *shardedStore) askedOf(shard string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[shard]
}

// fusedShards is a store with shards behind breakers, and the changes they reported.
type fusedShards struct {
	*shardedStore
	store.Store
	changes chan layers.BreakerChange
}

func newFusedShards(settings layers.Breaker) *fusedShards {
	f := &fusedShards{changes: make(chan layers.BreakerChange, 5000), shardedStore: &shardedStore{
		now: time.Unix(1_700_000_000, 0), moved: map[string]string{}, sick: map[string]error{}, took: map[string]time.Duration{},
		asked: map[string]int{}, checks: make(chan []string, 100), hold: map[string]chan struct{}{},
	}}
	settings.Clock = f.clock
	settings.OnChange = func(c layers.BreakerChange) { f.changes <- c }
	// The breaker finds the shards through other wrappers.
	f.Store = layers.WithBreaker(store.WithBudget(f.shardedStore, time.Hour), settings)
	return f
}

// take takes for subjects in one call.
func (f *fusedShards) take(subjects ...string) error {
	reqs := make([]store.Request, len(subjects))
	for i, subject := range subjects {
		reqs[i] = store.Request{Key: store.Key{Subject: subject}, Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1}
	}
	return f.Store.Decide(context.Background(), store.Take, reqs, make([]store.Decision, len(reqs)))
}

// want checks for a change, which comes before all goroutines of the bubble wait.
func (f *fusedShards) want(t *testing.T, shard string, from, to layers.BreakerState) {
	t.Helper()
	synctest.Wait()
	select {
	case c := <-f.changes:
		if c.Shard != shard || c.From != from || c.To != to {
			t.Errorf("%q went from %s to %s; want %q from %s to %s", c.Shard, c.From, c.To, shard, from, to)
		}
	default:
		t.Errorf("no shard changes; want %q to go from %s to %s", shard, from, to)
	}
}

// checked returns the shards that the recovery check has called.
func (f *fusedShards) checked(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	select {
	case shards := <-f.checks:
		return shards
	default:
		t.Error("no shard is checked")
		return nil
	}
}

// quiet checks that there are no more changes.
func (f *fusedShards) quiet(t *testing.T) {
	t.Helper()
	select {
	case c := <-f.changes:
		t.Errorf("%q went from %s to %s", c.Shard, c.From, c.To)
	default:
	}
}

// A shard that is away opens its own breaker, even while calls of other shards succeed in between, and does not
// affect other shards. A recovery check calls that shard.
func TestABreakerForEachShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFusedShards(layers.Breaker{Failures: 3, Pause: time.Second})
		f.change(func() { f.sick["a"] = errAway })
		for n := range 10 {
			err := f.take(fmt.Sprintf("a%d", n))
			if open := n >= 3; isOpen(err) != open || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("call %d of the sick shard: %v", n, err)
			}
			if err := f.take(fmt.Sprintf("b%d", n)); err != nil {
				t.Errorf("call %d of the sound shard: %v", n, err)
			}
		}
		if a, b := f.askedOf("a"), f.askedOf("b"); a != 3 || b != 10 {
			t.Errorf("the sick shard was asked %d times, the sound one %d; want 3 and 10", a, b)
		}
		f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
		f.change(func() { delete(f.sick, "a"); f.now = f.now.Add(time.Second) })
		if err := f.take("b1"); err != nil {
			t.Error(err)
		}
		f.quiet(t)
		if err := f.take("a7"); !isOpen(err) {
			t.Error(err)
		}
		f.want(t, "a", layers.BreakerOpen, layers.BreakerHalfOpen)
		if asked := f.checked(t); !slices.Equal(asked, []string{"a"}) {
			t.Errorf("the recovery check asked %v", asked)
		}
		f.want(t, "a", layers.BreakerHalfOpen, layers.BreakerClosed)
		if err := f.take("a1"); err != nil {
			t.Error(err)
		}
		f.quiet(t)
	})
}

// A call over several shards needs all of them, and each that is away is checked with its own keys.
func TestACallOverSeveralShardsNeedsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFusedShards(layers.Breaker{Failures: 1, Pause: time.Second})
		f.change(func() { f.sick["a"], f.sick["c"] = errAway, errUnknown })
		for range 2 { // the error names the shard
			f.take("b1", "a1")
			f.take("b1", "c1")
		}
		f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
		f.want(t, "c", layers.BreakerClosed, layers.BreakerOpen)
		asked := f.askedOf("b")
		for range 10 {
			if err := f.take("b1", "a1"); !isOpen(err) {
				t.Error(err)
			}
		}
		if now := f.askedOf("b"); now != asked {
			t.Errorf("shard b was asked %d times for calls that cannot be decided", now-asked)
		}
		if err := f.take("b1", "d1"); err != nil {
			t.Error(err)
		}
		f.quiet(t)
		f.change(func() { clear(f.sick); f.now = f.now.Add(time.Second) })
		if err := f.take("b1", "c1", "a1", "a2"); !isOpen(err) || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%v; want the reason of the first shard that is away", err)
		}
		got := [][]string{f.checked(t), f.checked(t)}
		slices.SortFunc(got, slices.Compare)
		if len(got[0]) != 1 || len(got[1]) != 1 || got[0][0] != "a" || got[1][0] != "c" {
			t.Errorf("the recovery checks asked %v", got)
		}
		closed := 0
		for len(f.changes) > 0 {
			if c := <-f.changes; c.To == layers.BreakerClosed {
				closed++
			}
		}
		if closed != 2 {
			t.Errorf("%d shards are closed again, want 2", closed)
		}
		if err := f.take("b1", "c1", "a1"); err != nil {
			t.Error(err)
		}
	})
}

// What counts for which shard.
func TestWhatCountsForAPart(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(s *shardedStore)
		calls   [][]string
		opens   string // the shards, in order
	}{
		"an error without a shard, over one":     {func(s *shardedStore) { s.unnamed = true }, [][]string{{"a1"}, {"a2"}}, "a"},
		"an error without a shard, over several": {func(s *shardedStore) { s.unnamed = true }, [][]string{{"a1", "b1"}, {"a1", "b1"}}, ""},
		"slow, over one": {
			func(s *shardedStore) { delete(s.sick, "a"); s.took["a"] = time.Minute }, [][]string{{"a1"}, {"a1"}}, "a",
		},
		"slow, over several": {
			func(s *shardedStore) { delete(s.sick, "a"); s.took["a"] = time.Minute }, [][]string{{"a1", "b1"}, {"a1", "b1"}}, "",
		},
		"of one and of several":           {func(*shardedStore) {}, [][]string{{"a1"}, {"b1"}, {"b1", "a1"}}, "a"},
		"well between":                    {func(s *shardedStore) {}, [][]string{{"a1"}, {"b1", "c1"}, {"b1"}, {"a1"}}, "a"},
		"of the shard that took its keys": {func(s *shardedStore) { s.moved["d"] = "a" }, [][]string{{"d1"}, {"a1"}}, "a"},
		"not needed":                      {func(s *shardedStore) { s.skips = true }, [][]string{{"b1", "a1"}, {"b1", "a1"}}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFusedShards(layers.Breaker{Failures: 2})
			f.sick["a"] = errAway
			test.prepare(f.shardedStore)
			for _, subjects := range test.calls {
				f.take(subjects...)
			}
			opened := ""
			for len(f.changes) > 0 {
				opened += (<-f.changes).Shard
			}
			if opened != test.opens {
				t.Errorf("it opened %q, want %q", opened, test.opens)
			}
		})
	}
}

// An answer of several shards counts for each of them.
func TestAnAnswerOfSeveralShardsCountsForEach(t *testing.T) {
	f := newFusedShards(layers.Breaker{Failures: 2})
	for range 5 {
		f.change(func() { f.sick["a"] = errAway })
		f.take("a1")
		f.change(func() { delete(f.sick, "a") })
		if err := f.take("b1", "a1"); err != nil {
			t.Error(err)
		}
	}
	f.quiet(t)
}

// An error can name another shard than the one that was called: the one to which the keys have moved. It counts for
// that one.
func TestAnErrorOfAnotherShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFusedShards(layers.Breaker{Failures: 2})
		f.take("a1") // so that it is known
		f.change(func() { f.sick["b"] = &store.ShardError{Shard: "a", Err: errAway} })
		f.change(func() { f.unnamed = true })
		f.take("b1")
		f.take("b1")
		f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
		f.change(func() { f.sick["b"] = &store.ShardError{Err: errAway} }) // without a shard
		for range 5 {
			f.take("b1")
		}
		f.quiet(t)
	})
}

// A shard whose keys another shard has taken over is forgotten, and reported as closed. Calls that are still under
// way there no longer count.
func TestAPartThatVanishesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFusedShards(layers.Breaker{Failures: 1, Pause: time.Second})
		f.change(func() { f.sick["a"] = errAway })
		f.take("a1")
		f.want(t, "a", layers.BreakerClosed, layers.BreakerOpen)
		hold := make(chan struct{})
		f.change(func() { f.hold["a"] = hold; f.now = f.now.Add(time.Second) })
		f.take("a1")
		f.want(t, "a", layers.BreakerOpen, layers.BreakerHalfOpen)
		if n := f.askedOf("a"); n != 2 {
			t.Errorf("the shard was asked %d times, want 2: the recovery check is under way", n)
		}
		f.change(func() { f.moved["a"] = "z" })
		if err := f.take("a1"); err != nil {
			t.Errorf("after the failover: %v", err)
		}
		f.want(t, "a", layers.BreakerHalfOpen, layers.BreakerClosed)
		close(hold)
		f.checked(t)
		for n := range 3000 { // each failover gives the shard a new name
			f.change(func() { f.sick[f.moved["a"]] = errAway })
			f.take("a1")
			f.want(t, f.moved["a"], layers.BreakerClosed, layers.BreakerOpen)
			old := f.moved["a"]
			f.change(func() { f.moved["a"] = fmt.Sprint("a", n) })
			f.take("a1")
			f.want(t, old, layers.BreakerOpen, layers.BreakerClosed)
		}
		f.quiet(t)
	})
}

// endlessStore has a shard for each subject.
type endlessStore struct{ sickStore }

func (s *endlessStore) Shard(key store.Key) string { return key.Subject }

// The memory for shards is bounded, even if a store has ever new ones.
func TestShardsThatAreKeptAreBounded(t *testing.T) {
	backend := &endlessStore{sickStore{err: errAway}}
	open := map[string]bool{}
	broken := layers.WithBreaker(backend, layers.Breaker{Failures: 1, OnChange: func(c layers.BreakerChange) {
		if open[c.Shard] = true; c.To == layers.BreakerClosed {
			delete(open, c.Shard)
		}
	}})
	for n := range 1500 {
		storecall.New(broken).Take(t.Context(), store.Key{Subject: fmt.Sprint("u", n)}, store.Limit{Count: 1, Period: time.Hour}, 1)
	}
	if len(open) != 1024 {
		t.Errorf("%d shards are kept, want 1024", len(open))
	}
}

// While nothing fails, a breaker allocates nothing, with or without shards, and for a call over several.
func TestABreakerAllocatesNothingWhileAllIsWell(t *testing.T) {
	two := []store.Request{
		{Key: store.Key{Subject: "a"}, Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1},
		{Key: store.Key{Subject: "b"}, Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1},
	}
	for name, backend := range map[string]store.Store{"in one piece": allowingStore{}, "in shards": allowingShards{}} {
		for n := range 2 {
			reqs, decisions := two[:n+1], make([]store.Decision, n+1)
			broken := layers.WithBreaker(backend, layers.Breaker{})
			if allocations := testing.AllocsPerRun(100, func() {
				if err := broken.Decide(context.Background(), store.Take, reqs, decisions); err != nil {
					t.Error(err)
				}
			}); allocations > 0 {
				t.Errorf("%s, %d requests: %v allocations", name, n+1, allocations)
			}
		}
	}
}

type allowingStore struct{}

func (allowingStore) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return nil
}
func (allowingStore) Close() error { return nil }

type allowingShards struct{ allowingStore }

func (allowingShards) Shard(key store.Key) string { return key.Subject }
