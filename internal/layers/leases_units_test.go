package layers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A lease counts from the sending of its request, since the store may have decided then. It ends after a Term, and
// at the latest with the window of its charge.
func TestALeaseCountsFromTheSending(t *testing.T) {
	const way, back, term = 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond
	for _, test := range []struct {
		limit store.Limit
		lasts time.Duration // from the sending
	}{
		{store.Limit{Count: 1000, Period: time.Hour}, term},
		{store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Hour}, term},
		{store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: 300 * time.Millisecond}, 90 * time.Millisecond},
		{store.Limit{Algorithm: store.SlidingCounter, Count: 1000, Period: 300 * time.Millisecond},
			90 * time.Millisecond},
		{store.Limit{Algorithm: store.SlidingCounter, Count: 1000, Period: 600 * time.Millisecond, Slices: 2},
			90 * time.Millisecond},
	} {
		for _, late := range []time.Duration{-time.Microsecond, 0} {
			r := newReplicas(1, 0, 0, leased(store.Leases{Max: 50, Term: term}))
			r.pass(200 * time.Millisecond) // into the window
			for range 4 {
				r.take(t, 0, hotKey, test.limit, 1)
			}
			// The store decides 90 ms before the end of a window of 300 ms.
			r.way, r.back = way, back
			sent := r.passed
			if d := r.take(t, 0, hotKey, test.limit, 1); d.DecidedBy != store.DecidedByStore {
				t.Fatalf("%s: the refill's own %+v", test.limit, d)
			}
			r.passed = sent + test.lasts + late
			want := store.DecidedByLease
			if late >= 0 {
				want = store.DecidedByStore
			}
			if d := r.take(t, 0, hotKey, test.limit, 1); d.DecidedBy != want {
				t.Errorf("%s, %s and %s after it was sent: by %s, want by %s", test.limit, test.lasts, late,
					d.DecidedBy, want)
			}
		}
	}
}

// takenAhead takes units at one instant, and returns how many more the store has charged.
func (r *replicas) takenAhead(t *testing.T, limit store.Limit) int64 {
	t.Helper()
	const takes = 5 // four make the key hot, and one takes in advance
	before := r.used(t, hotKey, limit)
	for range takes {
		r.take(t, 0, hotKey, limit, 1)
	}
	return r.used(t, hotKey, limit) - before - takes
}

// lossOf returns one replica whose store has failed a call for more units than are held in advance.
func lossOf(t *testing.T, limit store.Limit, err error) *replicas {
	t.Helper()
	var next error
	r := newReplicas(1, 0, 0, func(far store.Store, a *agenda) store.Store {
		return leased(store.Leases{Max: 50})(&double{far,
			func(ctx context.Context, _ store.Op, _ []store.Decision, ask passing) error {
				if failed := next; failed != nil {
					next = nil
					return failed
				}
				return ask(ctx)
			}}, a)
	})
	r.takes(t, 0, limit, 10*time.Microsecond, 5*time.Millisecond) // until it takes 50 at a time
	next = err
	for range 100 {
		if _, got := storecall.New(r.stacks[0]).Take(context.Background(), hotKey, limit, 1); got != nil {
			if !errors.Is(got, err) {
				t.Fatalf("%v, want %v", got, err)
			}
			return r
		}
	}
	t.Fatal("the store was not asked")
	return nil
}

// The error decides whether units are lost: it says whether they may be charged. Lost units count as held until the
// store no longer counts them: two periods and the time that a call can be under way.
func TestWhichErrorsLoseUnits(t *testing.T) {
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{store.ErrUnavailable, false}, {store.ErrInvalid, false}, {store.ErrRefused, false},
		{&store.ForeignError{StoreKey: "k", Holds: "a list"}, false}, {store.ErrGaveUp, false},
		{store.ErrOutcomeUnknown, true}, {fmt.Errorf("%w: %w", store.ErrGaveUp, store.ErrOutcomeUnknown), true},
		{errors.New("a wrapper's own"), true},
	} {
		limit := store.Limit{Algorithm: store.FixedWindow, Count: 100_000, Period: time.Hour}
		const gone = 2*time.Hour + 250*time.Millisecond
		for _, after := range []time.Duration{0, gone - time.Microsecond, gone} {
			r := lossOf(t, limit, test.err)
			r.pass(after)
			held := test.lost && after < gone
			if ahead := r.takenAhead(t, limit); (ahead == 0) != held {
				t.Errorf("%s after %v %d are taken ahead; want 50 held: %v", after, test.err, ahead, held)
			}
		}
	}
}

func leased(settings store.Leases) func(store.Store, *agenda) store.Store {
	return func(backend store.Store, a *agenda) store.Store {
		return layers.Stack(backend,
			layers.Layers{Leases: &settings, Env: layers.Env{Clock: a.local, Background: a.background}})
	}
}

func (r *replicas) used(t failer, key store.Key, limit store.Limit) int64 {
	t.Helper()
	return decide(t, r.farStore.Store, store.Peek, store.Request{Key: key, Limit: limit, Cost: 1})[0].Used
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
		r := newReplicas(1, 0, 0, leased(store.Leases{Max: 50}))
		pause := time.Second / time.Duration(test.perSecond)
		length := min(2*time.Second, 20_000*pause)
		r.takes(t, 0, limit, pause, length)
		taken, asked := r.takes(t, 0, limit, pause, length)
		if ratio := float64(taken) / float64(asked); ratio < test.atLeast || ratio >= test.below {
			t.Errorf("at %d a second there were %.2f takes for a call; want from %v to %v", test.perSecond, ratio,
				test.atLeast, test.below)
		}
	}
}

// Unused units go back at the end of their Term, and on Close.
func TestUnusedUnitsGoBack(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 100_000, Period: time.Hour}
	r := newReplicas(2, time.Millisecond, time.Millisecond, leased(store.Leases{Max: 50}))
	first, _ := r.takes(t, 0, limit, time.Millisecond, 300*time.Millisecond)
	r.pass(125 * time.Millisecond) // not the end of the window
	if used := r.used(t, hotKey, limit); used != int64(first) {
		t.Errorf("idle, with %d taken: %d are in use", first, used)
	}
	second, _ := r.takes(t, 1, limit, time.Millisecond, 300*time.Millisecond)
	if used := r.used(t, hotKey, limit); used <= int64(first+second) {
		t.Errorf("nothing was taken ahead: %d", used)
	}
	r.way = 250 * time.Millisecond // as long as a refund may take
	r.close(t)
	if used := r.used(t, hotKey, limit); used != int64(first+second) {
		t.Errorf("closed, with %d taken: %d are in use", first+second, used)
	}
	if d := r.take(t, 1, hotKey, limit, 1); d.DecidedBy != store.DecidedByStore {
		t.Errorf("closed leases hand out %+v", d)
	}
}

// The number of leased keys is bounded. Others take units one by one, and a key that was replaced leaves no charge.
func TestLeasedKeysAreBounded(t *testing.T) {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Hour}
	layers.SetLeaseKeys(t, 16)
	r := newReplicas(1, 0, 0, leased(store.Leases{Max: 50}))
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
	r := newReplicas(1, 0, 0, leased(store.Leases{}))
	r.takes(t, 0, limit, time.Millisecond, 200*time.Millisecond)
	one := store.Request{Key: hotKey, Limit: limit, Cost: 1}
	shadow, withToken := one, one
	shadow.Shadow, withToken.Token = true, "t"
	for name, test := range map[string]struct {
		op   store.Op
		reqs []store.Request
	}{
		"a shadow": {store.Take, []store.Request{shadow}},
		"several":  {store.Take, []store.Request{one, asking("b", "10/1h", 1)}},
		"a token":  {store.Take, []store.Request{withToken}}, "the token again": {
			store.Take, []store.Request{withToken}},
		"a peek": {store.Peek, []store.Request{one}}, "a refund": {store.Refund, []store.Request{one}},
		"an adjustment": {store.Adjust, []store.Request{one}},
	} {
		before := r.asked
		if d := decide(t, r.stacks[0], test.op, test.reqs...)[0]; d.DecidedBy != store.DecidedByStore ||
			r.asked != before+1 {
			t.Errorf("%s: the store was asked %d times, %+v", name, r.asked-before, d)
		}
	}
	for _, cost := range []int64{-5, 0, limit.Count + 1} {
		if _, err := storecall.New(r.stacks[0]).Take(context.Background(), hotKey, limit, cost); !errors.Is(
			err, store.ErrInvalid) {
			t.Errorf("a cost of %d: %v", cost, err)
		}
	}
	if _, has := admin.KeyspaceOf(r.stacks[0]); has {
		t.Error("it has the keys of a store that has none")
	}
}

// Units that were taken in advance for those who leave nothing are not given to others, and what is left stays free.
func TestLeasesAreOfThoseWhoLeaveAsMuch(t *testing.T) {
	r := newReplicas(1, 0, 0, leased(store.Leases{}))
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Hour}
	req := func(leave int64) store.Request {
		return store.Request{Key: store.Key{Subject: "hot"}, Limit: limit, Cost: 1, Leave: leave}
	}
	granted, leased := map[int64]int64{}, map[int64]bool{}
	for range 2000 {
		for _, leave := range []int64{400, 0} {
			if leave == 0 && granted[0] >= 100 {
				continue // the paid callers are done, and the others go on
			}
			d := decide(t, r.stacks[0], store.Take, req(leave))[0]
			if d.Allowed {
				granted[leave]++
				leased[leave] = leased[leave] || d.DecidedBy == store.DecidedByLease
			}
			if d.Used+d.Remaining != limit.Count-leave && d.Used <= limit.Count-leave {
				t.Fatalf("with %d to be left: %+v", leave, d)
			}
		}
		r.pass(100 * time.Microsecond)
	}
	r.pass(time.Second)
	if granted[0] != 100 || granted[400] != 500 || !leased[0] || !leased[400] {
		t.Errorf("granted %v, by leases %v", granted, leased)
	}
	if d := decide(t, r.stacks[0], store.Peek, req(0))[0]; d.Remaining != 400 {
		t.Errorf("what is left to the others: %+v", d)
	}
	r.close(t)
}
