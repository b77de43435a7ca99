package layers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// others takes or gives back outside the queue.
func (q *queue) others(op store.Op, reqs ...store.Request) {
	q.t.Helper()
	decisions := make([]store.Decision, len(reqs))
	if err := q.store.Store.Decide(context.Background(), op, reqs, decisions); err != nil || !store.AllAllowed(decisions) {
		q.t.Fatalf("%s: %+v, %v", op, decisions, err)
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

// A call with the default name of a limit, and one without a name, wait for the same key.
func TestANameThatIsLeftOutIsTheSame(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		q.others(store.Take, takes("u", 10, time.Second, 10))
		q.come(t.Context(), "large", takes("u", 10, time.Second, 10))
		named := takes("u", 10, time.Second, 1)
		named.Key.Name = "token-bucket/1s"
		q.come(t.Context(), "small", named)
		q.want(map[string]time.Duration{"large": time.Second, "small": 1100 * time.Millisecond})
	})
}

// A caller gives up its place for one key when another key makes it wait longer than it has waited, also if only
// earlier callers know that.
func TestAPlaceIsGivenUpForALongerWait(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		hour, a, b := takes("hour", 1, time.Hour, 1), takes("a", 1, 4*time.Second, 1), takes("b", 1, 2*time.Second, 1)
		q.others(store.Take, a, b)
		q.come(t.Context(), "first", hour, b)
		q.come(t.Context(), "second", hour, a)
		q.come(t.Context(), "third", a)
		q.sleepUntil(time.Second)
		q.others(store.Take, hour) // "first" learns of it after two seconds, and "second" from "first"
		q.want(map[string]time.Duration{"first": time.Hour + time.Second, "second": 2*time.Hour + time.Second, "third": 4 * time.Second})
	})
}

// A place is kept while its owner waits for another key no longer than it has waited, and given up if that wait is
// longer by the smallest step.
func TestAPlaceIsKeptForAWaitAsLong(t *testing.T) {
	for _, test := range []struct{ longer, both, behind time.Duration }{
		{0, 4 * time.Second, 6 * time.Second},
		{time.Microsecond, 4*time.Second + time.Microsecond, 2 * time.Second},
	} {
		inQueue(t, func(t *testing.T, q *queue) {
			a, b := takes("a", 1, 2*time.Second, 1), takes("b", 1, 3*time.Second+test.longer, 1)
			q.others(store.Take, a)
			q.come(t.Context(), "both", a, b)
			q.come(t.Context(), "behind", a)
			q.sleepUntil(time.Second)
			q.others(store.Take, b) // so that after two seconds both wait for two more
			q.want(map[string]time.Duration{"both": test.both, "behind": test.behind})
		})
	}
}

// A caller that comes to a key late, after a wait at another one, is before those that arrived later.
func TestAPlaceIsOfTheArrival(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := takes("a", 10, 10*time.Second, 10), takes("b", 1, time.Second, 1)
		q.others(store.Take, a, b)
		half := a
		half.Cost = 5
		q.others(store.Refund, a)
		q.come(t.Context(), "first", a, b)
		q.others(store.Take, a)
		q.come(t.Context(), "second", half)
		q.want(map[string]time.Duration{"first": 10 * time.Second, "second": 15 * time.Second})
	})
}

// A shadow limit makes nobody wait: neither its owner, nor others that wait for its key.
func TestAShadowKeepsNobodyWaiting(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		u, hour := takes("u", 1, time.Second, 1), takes("hour", 1, time.Hour, 1)
		q.others(store.Take, u, hour)
		shadow := hour
		shadow.Shadow = true
		leaves, leave := context.WithCancel(t.Context())
		q.come(leaves, "holds the hour", hour)
		q.come(t.Context(), "first", u, shadow)
		patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		q.come(patient, "second", u, shadow)
		q.sleepUntil(3 * time.Second)
		leave()
		q.want(map[string]time.Duration{"first": time.Second, "second": 2 * time.Second})
	})
}

// A caller behind another is denied at once when that one learns that it takes too long.
func TestATurnThatBecomesTooLateIsDeniedAtOnce(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		u := takes("u", 1, time.Second, 1)
		q.others(store.Take, u)
		leaves, leave := context.WithCancel(t.Context())
		q.come(leaves, "first", u)
		const turn = time.Hour + time.Second
		for name, wait := range map[string]time.Duration{"just": turn + time.Microsecond, "short": turn - time.Microsecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			q.come(ctx, name, u)
		}
		q.store.answerBy(func(decisions []store.Decision) (bool, error) {
			decisions[0] = store.Decision{Used: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
			return true, nil
		})
		q.sleepUntil(2 * time.Second)
		q.store.answerBy(func([]store.Decision) (bool, error) { return false, nil })
		leave()
		told := q.answers()
		if d := told["short"]; d.err != nil || d.Allowed || d.after != time.Second || d.RetryAfter != time.Hour {
			t.Errorf("too late by a microsecond: %+v", d)
		}
		if d := told["just"]; d.err != nil || !d.Allowed || d.after != turn {
			t.Errorf("just in time: %+v", d)
		}
	})
}

// A turn at the end of the longest wait is in time, and one that comes later by the smallest step is denied at once, for a
// caller that calls the store and for one that waits behind another.
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
				patient := w
				patient.MaxWait = time.Hour - short
				decisions, err := patient.Take(t.Context(), u)
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

// A denial behind others has the last answer for its own key, adjusted to now.
func TestADenialBehindOthersIsOfItsOwnKey(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := takes("a", 10, 10*time.Second, 6), takes("b", 1, time.Second, 1)
		q.others(store.Take, a)
		q.come(t.Context(), "first", a, b) // in two seconds
		q.sleepUntil(time.Second)
		one := a
		one.Cost = 1
		q.others(store.Take, one, b) // so that a fits after three seconds, when b has long been free
		q.sleepUntil(2500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		leaves, leave := context.WithCancel(t.Context())
		calls := q.store.calls.Load()
		q.come(leaves, "leaves", a)
		time.AfterFunc(100*time.Millisecond, leave)
		_, err := q.WaitAll(ctx, a, b, func() store.Request { s := takes("s", 1, time.Hour, 1); s.Shadow = true; return s }())
		var denied *storecall.DeniedError
		if !errors.As(err, &denied) {
			t.Fatalf("%v", err)
		}
		d := denied.Decisions
		// The answer after two seconds: 5 in use and 5 remaining, all free after five seconds more.
		if d[0].Allowed || d[0].Used != 5 || d[0].Remaining != 5 || d[0].RetryAfter != 500*time.Millisecond ||
			d[0].ResetAfter != 4500*time.Millisecond || d[0].At != store.InstantOf(time.Now()) || d[0].Unguarded {
			t.Errorf("of the key that others wait for: %+v", d[0])
		}
		if !d[1].Unguarded || d[1].Shadow || !d[2].Unguarded || !d[2].Shadow {
			t.Errorf("of keys that nobody was asked about: %+v", d[1:])
		}
		q.sleepUntil(2700 * time.Millisecond)
		if n := q.store.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls for callers who stood behind others", n)
		}
		if d := q.answers()["leaves"]; !errors.Is(d.err, context.Canceled) || d.after != 2600*time.Millisecond {
			t.Errorf("who left is told %+v", d)
		}
	})
}

// At a kept place the answer is the one that denied, not a later one that would have allowed.
func TestADenialAtAKeptPlaceIsADenial(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := takes("a", 1, 2*time.Second, 1), takes("b", 1, 2*time.Second, 1)
		q.others(store.Take, a)
		q.come(t.Context(), "first", a, b)
		q.sleepUntil(time.Second)
		q.others(store.Take, b) // so that after two seconds a fits, and b after one more
		q.sleepUntil(2500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		q.come(ctx, "late", a)
		if d := q.answers()["late"]; d.err != nil || d.Allowed || d.Used != 1 || d.after != 2700*time.Millisecond {
			t.Errorf("%+v", d)
		}
	})
}

// While an earlier caller waits for a slow store, its time passes; then a denial has a RetryAfter in the near
// future, not in the past.
func TestADenialWhileAnotherAsksIsNotOfThePast(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		u := takes("u", 1, time.Second, 1)
		q.others(store.Take, u)
		q.come(t.Context(), "first", u)
		q.store.answerBy(func([]store.Decision) (bool, error) { time.Sleep(time.Second); return false, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		q.come(ctx, "second", u)
		d := q.answers()["second"]
		if d.err != nil || d.Allowed || d.after != 1500*time.Millisecond || d.RetryAfter != time.Microsecond ||
			d.ResetAfter != time.Microsecond {
			t.Errorf("%+v", d)
		}
	})
}

// The answer to the first also holds for the next caller with the same cost, but not for a smaller cost.
func TestWhatWasToldToWhoLeaves(t *testing.T) {
	for cost, want := range map[int64]struct {
		after time.Duration
		calls int64
	}{5: {5 * time.Second, 2}, 4: {4 * time.Second, 3}} {
		inQueue(t, func(t *testing.T, q *queue) {
			q.others(store.Take, takes("u", 10, 10*time.Second, 10))
			ctx, leave := context.WithCancel(t.Context())
			q.come(ctx, "first", takes("u", 10, 10*time.Second, 5))
			q.come(t.Context(), "next", takes("u", 10, 10*time.Second, cost))
			q.sleepUntil(time.Second)
			leave()
			q.want(map[string]time.Duration{"next": want.after})
			if n := q.store.calls.Load(); n != want.calls {
				t.Errorf("a cost of %d: %d calls, want %d", cost, n, want.calls)
			}
		})
	}
}

// As many callers go on together as there is room for, even if the store is slow, and not one more.
func TestNobodyGoesOnForWhomThereIsNoRoom(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		const slow = 10 * time.Millisecond
		u := takes("u", 3, time.Second, 1)
		u.Limit.Algorithm = store.FixedWindow
		all := u
		all.Cost = 3
		q.others(store.Take, all)
		q.store.answerBy(func([]store.Decision) (bool, error) { time.Sleep(slow); return false, nil })
		window := q.begin.Truncate(time.Second).Add(time.Second).Sub(q.begin)
		for _, name := range []string{"a", "b", "c", "d"} {
			q.come(t.Context(), name, u)
			q.sleepUntil(2 * slow)
		}
		q.want(map[string]time.Duration{"a": window + slow, "b": window + 2*slow, "c": window + 2*slow, "d": window + time.Second + slow})
		if n := q.store.calls.Load(); n != 5 { // "a" was denied before
			t.Errorf("%d calls, want 5", n)
		}
	})
}

// A grant for one limit tells nothing about another limit of the key.
func TestAGrantUnderAnotherLimitTellsNothing(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		q.others(store.Take, takes("u", 10, 10*time.Second, 10))
		q.come(t.Context(), "old", takes("u", 10, 10*time.Second, 1))
		q.come(t.Context(), "new", takes("u", 100, 10*time.Second, 5))
		q.want(map[string]time.Duration{"old": time.Second, "new": time.Second})
	})
}

// A turn waits for all of its keys, and the store is called when the last of them fits.
func TestTheStoreIsAskedWhenTheLastKeyFits(t *testing.T) {
	for _, reversed := range []bool{false, true} {
		inQueue(t, func(t *testing.T, q *queue) {
			reqs := []store.Request{takes("a", 1, time.Second, 1), takes("b", 1, 3*time.Second, 1)}
			q.others(store.Take, reqs...)
			if reversed {
				slices.Reverse(reqs)
			}
			q.come(t.Context(), "u", reqs...)
			q.want(map[string]time.Duration{"u": 3 * time.Second})
			if n := q.store.calls.Load(); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
		})
	}
}
