package layers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func leased(settings layers.Leases) func(store.Store, *agenda) store.Store {
	return func(backend store.Store, a *agenda) store.Store {
		settings.Clock, settings.Background = a.local, a.background
		return layers.WithLeases(backend, settings)
	}
}

func (r *replicas) used(t failer, key store.Key, limit store.Limit) int64 {
	t.Helper()
	d, err := storecall.New(r.farStore.Store).Peek(context.Background(), key, limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d.Used
}

// takes takes one unit every pause, for a while, and returns the number of calls of the store.
func (r *replicas) takes(t failer, replica int, limit store.Limit, pause, length time.Duration) (taken, asked int) {
	t.Helper()
	before := r.asked
	for end := r.passed + length; r.passed < end; taken++ {
		r.pass(pause)
		if d := r.take(t, replica, hotKey, limit, 1); !d.Allowed {
			t.Fatal("denied", d)
		}
	}
	return taken, r.asked - before
}

// The number of units in advance follows the rate of the key, between none and Max.
func TestLeasesFollowTheRate(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: store.MaxCount, Period: time.Hour}
	for _, test := range []struct {
		perSecond      int
		atLeast, below float64 // takes per call of the store
	}{{1, 1, 1.01}, {20, 1, 1.01}, {200, 3, 12}, {1000, 20, 50}, {10_000, 45, 52}, {1_000_000, 49, 52}} {
		r := newReplicas(1, 0, 0, leased(layers.Leases{Max: 50}))
		pause := time.Second / time.Duration(test.perSecond)
		length := min(2*time.Second, 20_000*pause)
		r.takes(t, 0, limit, pause, length)
		taken, asked := r.takes(t, 0, limit, pause, length)
		if ratio := float64(taken) / float64(asked); ratio < test.atLeast || ratio >= test.below {
			t.Errorf("at %d a second there were %.2f takes for a call; want from %v to %v", test.perSecond, ratio, test.atLeast, test.below)
		}
	}
}

// Unused units go back when the key is idle, and on Close.
func TestUnusedUnitsGoBack(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 100_000, Period: time.Hour}
	r := newReplicas(2, time.Millisecond, time.Millisecond, leased(layers.Leases{Max: 50}))
	first, _ := r.takes(t, 0, limit, time.Millisecond, 300*time.Millisecond)
	r.pass(100 * time.Millisecond) // not the end of the window
	if used := r.used(t, hotKey, limit); used != int64(first) {
		t.Errorf("idle, with %d taken: %d are in use", first, used)
	}
	second, _ := r.takes(t, 1, limit, time.Millisecond, 300*time.Millisecond)
	if used := r.used(t, hotKey, limit); used <= int64(first+second) {
		t.Errorf("nothing was taken ahead: %d", used)
	}
	r.close(t)
	if used := r.used(t, hotKey, limit); used != int64(first+second) {
		t.Errorf("closed, with %d taken: %d are in use", first+second, used)
	}
	if d := r.take(t, 1, hotKey, limit, 1); d.DecidedBy != store.DecidedByStore {
		t.Errorf("closed leases hand out %+v", d)
	}
}

// The number of leased keys is bounded. Units of others are taken one by one, and a key that was replaced leaves no
// charge.
func TestLeasedKeysAreBounded(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Hour}
	r := newReplicas(1, 0, 0, leased(layers.Leases{Max: 50, Keys: 16}))
	most := 0
	for round := range 3 {
		leasedNow := 0
		for i := range 200 {
			key := store.Key{Subject: fmt.Sprint("user:", i, round)}
			byLease := false
			for range 20 {
				byLease = r.take(t, 0, key, limit, 1).DecidedBy == store.DecidedByLease || byLease
			}
			if byLease {
				leasedNow++
			}
		}
		most = max(most, leasedNow)
		r.pass(time.Second)
	}
	if most != 16 {
		t.Errorf("%d keys were leased at once, want 16", most)
	}
	r.close(t)
	for round := range 3 {
		for i := range 200 {
			if used := r.used(t, store.Key{Subject: fmt.Sprint("user:", i, round)}, limit); used != 20 {
				t.Fatalf("%d units are in use; 20 were taken", used)
			}
		}
	}
}

// Calls that only the store may answer pass through.
func TestWhatLeasesPassThrough(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 100_000, Period: time.Hour}
	r := newReplicas(1, 0, 0, leased(layers.Leases{}))
	r.takes(t, 0, limit, time.Millisecond, 200*time.Millisecond)
	other := store.Request{Key: store.Key{Subject: "b"}, Limit: limit, Cost: 1}
	one := store.Request{Key: hotKey, Limit: limit, Cost: 1}
	shadow, never, withToken := one, one, one
	shadow.Shadow, never.Cost, withToken.Token = true, limit.Count+1, "t"
	for name, reqs := range map[string][]store.Request{
		"shadow": {shadow}, "several": {one, other}, "a token": {withToken}, "the token again": {withToken},
	} {
		decisions := make([]store.Decision, len(reqs))
		err := r.stacks[0].Decide(context.Background(), store.Take, reqs, decisions)
		if err != nil || decisions[0].DecidedBy != store.DecidedByStore {
			t.Errorf("%s: %+v, %v", name, decisions[0], err)
		}
	}
	for name, cost := range map[string]int64{"a negative cost": -5, "none": 0, "one that never fits": never.Cost} {
		if _, err := storecall.New(r.stacks[0]).Take(context.Background(), hotKey, limit, cost); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, op := range []store.Op{store.Peek, store.Refund, store.Adjust} {
		before, decisions := r.asked, make([]store.Decision, 1)
		if err := r.stacks[0].Decide(context.Background(), op, []store.Request{one}, decisions); err != nil || r.asked != before+1 {
			t.Errorf("%s: the store was asked %d times, %v", op, r.asked-before, err)
		}
	}
	if _, has := admin.KeyspaceOf(r.stacks[0]); has {
		t.Error("it has the keys of a store that has none")
	}
}

func TestALeasedTakeAllocatesNothing(t *testing.T) {
	limit := store.Limit{Count: store.MaxCount, Period: time.Hour}
	l := storecall.New(layers.WithLeases(memorystore.New(), layers.Leases{Max: 1_000_000, Term: time.Minute}))
	byLease := 0
	take := func() {
		d, err := l.Take(context.Background(), hotKey, limit, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.DecidedBy == store.DecidedByLease {
			byLease++
		}
	}
	for range 100_000 {
		take()
	}
	byLease = 0
	if n := testing.AllocsPerRun(1000, take); n > 0 || byLease < 900 {
		t.Errorf("%v allocations, %d of 1001 by a lease", n, byLease)
	}
}
