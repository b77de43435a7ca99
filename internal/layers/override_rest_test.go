package layers_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// slowTable needs time for each read of overrides, and ignores its context.
type slowTable struct {
	*memorystore.Store
	takes atomic.Int64 // in nanoseconds
}

func (s *slowTable) OverrideVersion(ctx context.Context) (string, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Store.OverrideVersion(ctx)
}

// The first decision, and the first after a long pause, wait for the overrides; no other one does. None waits
// longer than its caller, or than a second.
func TestTheFirstDecisionsWaitForOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 100 * time.Millisecond
		table := &slowTable{Store: memorystore.New()}
		table.takes.Store(int64(slow))
		backend := layers.WithOverrides(table, layers.Overrides{})
		limits := storecall.New(backend)
		wants := func(when string, blocked bool, within, takes time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			begin := time.Now()
			d, err := limits.Peek(ctx, store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
			if took := time.Since(begin); err != nil || d.Allowed == blocked || took != takes {
				t.Errorf("%s: %+v, %v after %s; want blocked %v after %s", when, d, err, took, blocked, takes)
			}
		}
		block := func() (id string) {
			t.Helper()
			set, err := table.SetOverride(t.Context(), store.Override{Effect: store.OverrideBlock}, 24*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return set.ID
		}
		unblock := func(id string) {
			t.Helper()
			if _, found, err := table.RevokeOverride(t.Context(), id); !found || err != nil {
				t.Fatal(found, err)
			}
		}
		id := block()
		wants("the first", true, time.Hour, slow)
		unblock(id)
		wants("the second", true, time.Hour, 0)
		time.Sleep(2 * time.Second)
		wants("two seconds later", false, time.Hour, 0)
		time.Sleep(2 * time.Minute)
		id = block()
		wants("after a rest", true, time.Hour, slow)
		time.Sleep(2 * time.Minute)
		unblock(id)
		wants("with less time", true, slow/4, slow/4)
		wants("the next after it", false, time.Hour, slow-slow/4)
		time.Sleep(2 * time.Minute)
		table.takes.Store(int64(time.Minute))
		block()
		wants("where the table hangs", false, time.Hour, time.Second)
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
}

// After a Load, even one that was abandoned, no decision waits again.
func TestAfterALoadNoDecisionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, within := range []time.Duration{time.Hour, 50 * time.Millisecond} {
			table := &slowTable{Store: memorystore.New()}
			table.takes.Store(int64(100 * time.Millisecond))
			watch := layers.WatchOverrides(table, layers.Overrides{})
			ctx, cancel := context.WithTimeout(t.Context(), within)
			if err := watch.Load(ctx); (err == nil) != (within == time.Hour) {
				t.Errorf("loaded within %s: %v", within, err)
			}
			cancel()
			limits, begin := storecall.New(watch.Wrap(table)), time.Now()
			_, err := limits.Peek(t.Context(), store.Key{Subject: "u"}, store.Limit{Count: 1, Period: time.Hour}, 1)
			if took := time.Since(begin); err != nil || took != 0 {
				t.Errorf("loaded within %s, a decision took %s: %v", within, took, err)
			}
			watch.Close()
		}
	})
}
