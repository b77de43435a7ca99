package layers_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// shardedStore is a store that tells its shards.
type shardedStore struct{ *sickStore }

func (s shardedStore) Shard(key store.Key) (shard string) {
	s.change(func() { shard = s.shard(key) })
	return shard
}

// fuseShards puts a store with shards behind breakers, which find the shards through other wrappers.
func fuseShards(settings store.Breaker) *fused {
	s := newSickStore()
	return fuseOver(s, store.WithBudget(shardedStore{s}, time.Hour), settings)
}

// checked returns the subjects of the recovery checks.
func (f *fused) checked() (subjects string) {
	synctest.Wait()
	for len(f.checks) > 0 {
		for _, req := range <-f.checks {
			subjects += req.Key.Subject + " "
		}
	}
	return subjects
}

// A call over several shards needs all of them, and each that is away is checked with a key of its own.
func TestACallOverSeveralShardsNeedsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuseShards(store.Breaker{Failures: 1, Pause: time.Second})
		f.change(func() { f.sick["a"], f.sick["c"] = errAway, errUnknown })
		for range 2 { // the error names the shard
			f.take("b1", "a1")
			f.take("b1", "c1")
		}
		f.wantOf(t, "a", store.BreakerClosed, store.BreakerOpen)
		f.wantOf(t, "c", store.BreakerClosed, store.BreakerOpen)
		asked := f.asked["b"]
		for range 10 {
			if err := f.take("b1", "a1"); !isOpen(err) {
				t.Error(err)
			}
		}
		if now := f.asked["b"]; now != asked {
			t.Errorf("shard b was asked %d times for calls that cannot be decided", now-asked)
		}
		if err := f.take("b1", "d1"); err != nil {
			t.Error(err)
		}
		f.quiet(t)
		f.change(func() { clear(f.sick); f.now = f.now.Add(time.Second) })
		f.take("b1")
		f.quiet(t) // a sound shard checks no other one
		if err := f.take("b1", "c1", "a1", "a2"); !isOpen(err) || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%v; want the reason of the first shard that is away", err)
		}
		if got := f.checked(); got != "c1 a1 " && got != "a1 c1 " {
			t.Errorf("the recovery checks asked %v", got)
		}
		closed := 0
		for len(f.changes) > 0 {
			if c := <-f.changes; c.To == store.BreakerClosed {
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
		prepare func(s *sickStore)
		calls   [][]string
		opens   string // the shards, in order
	}{
		"an error without a shard, over one": {func(s *sickStore) { s.unnamed = true }, [][]string{{"a1"}, {"a2"}},
			"a"},
		"an error without a shard, over several": {
			func(s *sickStore) { s.unnamed = true }, [][]string{{"a1", "b1"}, {"a1", "b1"}}, "",
		},
		"slow, over several": {
			func(s *sickStore) { delete(s.sick, "a"); s.took["a"] = time.Minute },
			[][]string{{"a1", "b1"}, {"a1", "b1"}}, "",
		},
		"a refusal of one, over several": {
			func(s *sickStore) { s.sick["c"] = &store.ShardError{Shard: "a", Err: store.ErrRefused} },
			[][]string{{"a1"}, {"b1", "c1", "a1"}, {"a1"}}, "a"},
		"slow, over one": {
			func(s *sickStore) { delete(s.sick, "a"); s.took["a"] = time.Minute }, [][]string{{"a1"}, {"a1"}}, "a",
		},
		"of one and of several": {func(*sickStore) {}, [][]string{{"a1"}, {"b1"}, {"b1", "a1"}}, "a"},
		"well between": {func(s *sickStore) {}, [][]string{{"a1"}, {"b1", "c1"}, {"b1"}, {"a1"}},
			"a"},
		"of the shard that took its keys": {func(s *sickStore) { s.moved["d"] = "a" }, [][]string{{"d1"}, {"a1"}}, "a"},
		"not needed by a denial":          {func(s *sickStore) {}, [][]string{{"denied", "a1"}, {"denied", "a1"}}, ""},
		"not needed between":              {func(s *sickStore) {}, [][]string{{"a1"}, {"denied", "a1"}, {"a1"}}, "a"},
		"of a shard that was not asked": {func(s *sickStore) {
			s.sick["b"], s.unnamed = &store.ShardError{Shard: "a", Err: errAway}, true
		}, [][]string{{"b1"}, {"b1"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := fuseShards(store.Breaker{Failures: 2})
			f.sick["a"] = errAway
			test.prepare(f.sickStore)
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

// A shard whose keys another shard has taken over is forgotten, and reported as closed. Calls that are still under
// way there no longer count.
func TestAPartThatVanishesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuseShards(store.Breaker{Failures: 1, Pause: time.Second})
		f.change(func() { f.sick["a"] = errAway })
		f.take("a1")
		f.wantOf(t, "a", store.BreakerClosed, store.BreakerOpen)
		hold := f.holdBack(store.Peek)
		f.pass(time.Second)
		f.take("a1")
		f.wantOf(t, "a", store.BreakerOpen, store.BreakerHalfOpen)
		if n := f.asked["a"]; n != 2 {
			t.Errorf("the shard was asked %d times, want 2: the recovery check is under way", n)
		}
		f.change(func() { f.moved["a"] = "z" })
		if err := f.take("a1"); err != nil {
			t.Errorf("after the failover: %v", err)
		}
		f.wantOf(t, "a", store.BreakerHalfOpen, store.BreakerClosed)
		close(hold)
		f.quiet(t)
	})
}

// The result of a call counts for the epoch in which it began.
func TestAResultIsOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fuseShards(store.Breaker{Failures: 2, Pause: time.Second, Slow: time.Hour})
		hold := f.holdBack(store.Take)
		f.change(func() { f.sick["a"] = errAway })
		go f.take("b1", "a1")
		synctest.Wait()
		f.holdBack()
		f.take("a1")
		f.take("a1")
		f.wantOf(t, "a", store.BreakerClosed, store.BreakerOpen)
		f.change(func() { delete(f.sick, "a"); f.now = f.now.Add(time.Second) })
		f.take("a1")
		f.wantOf(t, "a", store.BreakerOpen, store.BreakerHalfOpen)
		f.wantOf(t, "a", store.BreakerHalfOpen, store.BreakerClosed)
		close(hold)
		synctest.Wait()
		f.quiet(t) // one failure in the new epoch would open it again
		f.change(func() { f.sick["a"] = errAway })
		f.take("a1")
		f.wantOf(t, "a", store.BreakerClosed, store.BreakerOpen)
	})
}
