package layers_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// others takes or gives back outside the queue.
func (q *queue) others(op store.Op, reqs ...store.Request) {
	q.t.Helper()
	if decisions := decide(q.t, q.store.Store, op, reqs...); !store.AllAllowed(decisions) {
		q.t.Fatalf("%s: %+v", op, decisions)
	}
}

// sleepUntil sleeps until a time after the beginning.
func (q *queue) sleepUntil(after time.Duration) { time.Sleep(after - time.Since(q.begin)) }

// want checks that all callers were let through, each at its time.
func (q *queue) want(after map[string]time.Duration) {
	q.t.Helper()
	told := q.answers()
	for name, at := range after {
		if a := told[name]; a.err != nil || !a.Allowed || a.after != at {
			q.t.Errorf("%s: want it let through after %s, and it is %+v", name, at, a)
		}
	}
}

// leaves is takes for a request that leaves units of a bucket of ten, of which one comes back each second.
func leaves(cost, leave int64) store.Request {
	req := takes("u", 10, 10*time.Second, cost)
	req.Leave = leave
	return req
}

// Callers come one after the other, and each is let through at its time. If calls is positive, so many reach the store.
func TestTurns(t *testing.T) {
	const second = time.Second
	window := func(count, cost, leave int64) store.Request {
		return store.Request{Key: store.Key{Subject: "u"}, Cost: cost, Leave: leave,
			Limit: store.Limit{Algorithm: store.FixedWindow, Count: count, Period: 10 * second}}
	}
	hour, a, b := takes("hour", 1, time.Hour, 1), takes("a", 1, 4*second, 1), takes("b", 1, 2*second, 1)
	full := takes("u", 10, 10*second, 10) // one unit comes back each second
	type scene struct {
		do    func(q *queue)
		want  map[string]time.Duration
		calls int64
	}
	// A small cost comes behind a large one, which is let through after nine seconds.
	largeCost := func(cost, leave, smallLeaves int64, small time.Duration) scene {
		return scene{func(q *queue) {
			q.others(store.Take, full)
			q.comes("large", leaves(cost, leave))
			q.comes("small", leaves(1, smallLeaves))
		}, map[string]time.Duration{"large": 9 * second, "small": small * second}, 0}
	}
	for name, test := range map[string]scene{
		// "first" learns of the hour after two seconds, and "second" from "first".
		"a place is given up for a longer wait": {func(q *queue) {
			q.others(store.Take, a, b)
			q.comes("first", hour, b)
			q.comes("second", hour, a)
			q.comes("third", a)
			q.sleepUntil(second)
			q.others(store.Take, hour)
		}, map[string]time.Duration{"first": time.Hour + second, "second": 2*time.Hour + second, "third": 4 * second},
			0},
		// A caller that comes to a key late, after a wait at another one, is before those that arrived later.
		"a place is of the arrival": {func(q *queue) {
			other := takes("b", 1, second, 1)
			q.others(store.Take, full, other)
			q.others(store.Refund, full)
			q.comes("first", full, other)
			q.others(store.Take, full)
			q.comes("second", leaves(5, 0))
		}, map[string]time.Duration{"first": 10 * second, "second": 15 * second}, 0},
		"a long wait for one key holds up nobody at another": {func(q *queue) {
			all := takes("all", 10, second, 1)
			all.Limit.Burst = 1
			for n := range 3 {
				q.comes(fmt.Sprint("hour ", n), hour, all)
			}
			for n := range 5 {
				q.comes(fmt.Sprint("other ", n), all)
			}
		}, map[string]time.Duration{"hour 0": 0, "other 0": second / 10, "other 4": second / 2, "hour 1": time.Hour},
			0},
		"a shadow keeps nobody waiting": {func(q *queue) {
			u, shadow := takes("u", 1, second, 1), hour
			shadow.Shadow = true
			q.others(store.Take, u, hour)
			q.comesFor(3*second, "holds the hour", hour)
			q.comes("first", u, shadow)
			q.comesUntil(10*second, "second", u, shadow)
		}, map[string]time.Duration{"first": second, "second": 2 * second}, 0},
		// A caller that would be in time if those before it left is not denied.
		"a turn comes earlier when others leave": {func(q *queue) {
			q.comes("first", hour)
			q.comesFor(59*time.Minute, "second", hour)
			q.comesUntil(61*time.Minute, "third", hour)
		}, map[string]time.Duration{"first": 0, "third": time.Hour}, 0},
		// The answer to the first also holds for the next caller with the same cost.
		"what was told to who leaves": {func(q *queue) {
			q.others(store.Take, full)
			q.comesFor(second, "first", leaves(5, 0))
			q.comes("next", leaves(5, 0))
		}, map[string]time.Duration{"next": 5 * second}, 2},
		// All for whom there is room go on together, even if the store is slow, and not one more. "0" was denied
		// before.
		"nobody goes on for whom there is no room": {func(q *queue) {
			q.others(store.Take, window(20, 20, 0))
			q.store.answerBy(func([]store.Decision) (bool, error) { time.Sleep(second / 100); return false, nil })
			for n := range 21 {
				q.comes(fmt.Sprint(n), window(20, 1, 0))
				q.sleepUntil(second)
			}
		}, map[string]time.Duration{"0": 10*second + second/100, "1": 10*second + second/50,
			"19": 10*second + second/50,
			"20": 20*second + second/100}, 22},
		// Each asks once when its turn has come, and "first" before.
		"a grant counts what each leaves": {func(q *queue) {
			q.others(store.Take, window(10, 10, 0))
			q.comes("first", window(10, 3, 0))
			q.comes("fits", window(10, 1, 4))
			q.comes("does not", window(10, 2, 5))
			q.comes("leaves less", window(10, 2, 2))
		}, map[string]time.Duration{"first": 10 * second, "fits": 10 * second, "leaves less": 10 * second,
			"does not": 20 * second}, 5},
		"a grant under another limit tells nothing": {func(q *queue) {
			q.others(store.Take, full)
			q.comes("old", leaves(1, 0))
			q.comes("new", takes("u", 100, 10*second, 5))
		}, map[string]time.Duration{"old": second, "new": second}, 0},
		"the store is asked when the last key fits": {func(q *queue) {
			q.others(store.Take, a, b)
			q.comes("u", a, b)
		}, map[string]time.Duration{"u": 4 * second}, 2},
		// The first of those who leave 5 comes when 4 are in use, with the two of the others 8 s after the beginning.
		"nobody waits for who leaves more": {func(q *queue) {
			q.others(store.Take, full)
			q.comes("free", leaves(1, 5))
			q.comes("batch", leaves(1, 8))
			q.comes("paid", leaves(1, 0))
			q.comes("free again", leaves(1, 5))
			q.comes("paid again", leaves(1, 0))
		}, map[string]time.Duration{"paid": second, "paid again": 2 * second, "free": 8 * second,
			"free again": 9 * second,
			"batch":      13 * second}, 0},
		"a large cost is not overtaken":           largeCost(9, 0, 0, 10),
		"a large cost that leaves less":           largeCost(9, 0, 4, 14),
		"a large cost of one that leaves as much": largeCost(4, 5, 5, 10),
		"a leaver wakes who leaves less": {func(q *queue) {
			q.others(store.Take, full)
			q.comesFor(second/2, "first", leaves(1, 0))
			q.comes("free", leaves(1, 5))
			q.comes("paid", leaves(1, 0))
		}, map[string]time.Duration{"paid": second, "free": 7 * second}, 0},
		// At three seconds "first" leaves no room; "less" has it at five, and "does not fit" when two are in use.
		"a grant wakes who leaves less": {func(q *queue) {
			q.others(store.Take, full)
			q.comes("first", leaves(1, 2))
			q.comes("does not fit", leaves(2, 6))
			q.comes("less", leaves(1, 3))
		}, map[string]time.Duration{"first": 3 * second, "less": 5 * second, "does not fit": 10 * second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inQueue(t, func(t *testing.T, q *queue) {
				test.do(q)
				q.want(test.want)
				if n := q.store.calls.Load(); test.calls > 0 && n != test.calls {
					t.Errorf("%d calls, want %d", n, test.calls)
				}
			})
		})
	}
}

// A turn at the end of the longest wait is in time, and one that comes later by the smallest step is denied at once,
// for a caller that calls the store and for one that waits behind another.
func TestATurnAtTheEndOfTheWait(t *testing.T) {
	for _, behind := range []bool{false, true} {
		for _, short := range []time.Duration{0, time.Microsecond} {
			synctest.Test(t, func(t *testing.T) {
				q := &queue{t: t, store: &counting{Store: memorystore.New()}, begin: time.Now()}
				u := takes("u", 1, time.Hour, 1)
				q.others(store.Take, u)
				w := &layers.Waiter{Store: q.store}
				if behind {
					ctx, leave := context.WithTimeout(t.Context(), 30*time.Minute)
					defer leave()
					// With a deadline the caller would be denied at once.
					endless, stop := context.WithCancel(t.Context())
					context.AfterFunc(ctx, stop)
					go w.Take(endless, u)
					synctest.Wait()
				}
				calls := q.store.calls.Load()
				decisions, err := w.TakeWithin(t.Context(), time.Hour-short, u)
				after, want := time.Since(q.begin), time.Hour
				if short > 0 {
					want = 0
				}
				if err != nil || store.AllAllowed(decisions) != (short == 0) || after != want {
					t.Errorf("behind another: %t, short by %s: %+v, %v after %s", behind, short, decisions, err, after)
				}
				if n := q.store.calls.Load() - calls; behind && short > 0 && n != 0 {
					t.Errorf("%d calls for a turn that is known to come too late", n)
				}
				time.Sleep(time.Hour) // the other has left
			})
		}
	}
}
