package layers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// counting counts the calls of a store, and stops callers that call endlessly. hook, if set, runs first and may
// answer itself.
type counting struct {
	store.Store
	calls atomic.Int64
	hook  atomic.Pointer[func(decisions []store.Decision) (answered bool, err error)]
}

func (s *counting) answerBy(hook func([]store.Decision) (bool, error)) { s.hook.Store(&hook) }

func (s *counting) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.calls.Add(1) > 100_000 {
		return errors.New("the store is asked again and again")
	}
	if hook := s.hook.Load(); hook != nil {
		if answered, err := (*hook)(decisions); answered || err != nil {
			return err
		}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// queue is a Caller whose callers come one after the other, in virtual time.
type queue struct {
	*storecall.Caller
	t     *testing.T
	store *counting
	begin time.Time

	mu    sync.Mutex
	told  map[string]answer
	order []string // in which callers were let through
	all   sync.WaitGroup
}

type answer struct {
	store.Decision
	err   error
	after time.Duration // from the beginning
}

func inQueue(t *testing.T, f func(t *testing.T, q *queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backend := &counting{Store: memorystore.New()}
		q := &queue{Caller: storecall.New(backend), t: t, store: backend, begin: time.Now(), told: map[string]answer{}}
		f(t, q)
		q.all.Wait()
		if n := q.Waiter.WaitedFor(); n != 0 {
			t.Errorf("%d keys are still waited for when nobody waits", n)
		}
	})
}

// come lets name wait for reqs, and returns when it is in the queue.
func (q *queue) come(ctx context.Context, name string, reqs ...store.Request) {
	q.all.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				q.tell(name, nil, fmt.Errorf("panicked: %v", value))
			}
		}()
		decisions, err := q.WaitAll(ctx, reqs...)
		q.tell(name, decisions, err)
	})
	synctest.Wait()
}

func (q *queue) tell(name string, decisions []store.Decision, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if errors.As(err, new(*storecall.DeniedError)) {
		err = nil // the decision says it
	}
	a := answer{err: err, after: time.Since(q.begin)}
	if len(decisions) > 0 {
		a.Decision = decisions[0]
	}
	q.told[name] = a
	if err == nil && store.AllAllowed(decisions) {
		q.order = append(q.order, name)
	}
}

// answers waits until all have an answer.
func (q *queue) answers() map[string]answer {
	q.all.Wait()
	return q.told
}

// takes is a request of a call for one key.
func takes(subject string, count int64, period time.Duration, cost int64) store.Request {
	return store.Request{Key: store.Key{Subject: subject}, Limit: store.Limit{Count: count, Period: period}, Cost: cost}
}

// Fifty callers who wait for one key again and again get their turns in the order of their arrival, each as early
// as possible. There is about one call of the store for each unit.
func TestFiftyWaitersTakeTurns(t *testing.T) {
	const waiters, units = 50, 145
	for _, algorithm := range store.Algorithms() {
		limit := store.Limit{Algorithm: algorithm, Count: 1, Period: 20 * time.Millisecond}
		perUnit := int64(1)
		if algorithm == store.SlidingLog || algorithm == store.SlidingCounter {
			perUnit = 2 // nobody knows when the next unit fits, so the next in the queue calls
		}
		t.Run(algorithm.String(), func(t *testing.T) {
			inQueue(t, func(t *testing.T, q *queue) {
				var mu sync.Mutex
				var order []int
				var last time.Time
				for n := range waiters {
					q.all.Go(func() {
						for {
							mu.Lock()
							enough := len(order) >= units-waiters+1
							mu.Unlock()
							if enough {
								return
							}
							d, err := q.Wait(t.Context(), store.Key{Subject: "u"}, limit, 1)
							if err != nil || !d.Allowed {
								t.Errorf("waiter %d: %+v, %v", n, d, err)
							}
							mu.Lock()
							order, last = append(order, n), time.Now()
							mu.Unlock()
						}
					})
					synctest.Wait() // so that they come in a known order
				}
				q.all.Wait()
				want := []int{0} // the first finds the key unused, and comes back before the others
				for i := range units - 1 {
					want = append(want, i%waiters)
				}
				if !slices.Equal(order, want) {
					t.Errorf("order of turns: %v", order)
				}
				took, exact := last.Sub(q.begin), time.Duration(units-1)*20*time.Millisecond
				if algorithm == store.SlidingCounter {
					exact *= 2 // here it lets one through in every other window
				}
				if took < exact-20*time.Millisecond || took > exact+units*time.Microsecond {
					t.Errorf("%d turns took %s, want %s", units, took, exact)
				}
				if calls, most := q.store.calls.Load(), perUnit*units+2; calls > most {
					t.Errorf("%d calls for %d units, want at most %d", calls, units, most)
				}
			})
		})
	}
}

// A high cost gets its turn, however many low ones wait behind it.
func TestALargeCostIsNotOvertaken(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		q.come(t.Context(), "first", takes("u", 10, time.Second, 10))
		q.come(t.Context(), "large", takes("u", 10, time.Second, 10))
		for n := range 5 {
			q.come(t.Context(), fmt.Sprint("small ", n), takes("u", 10, time.Second, 1))
		}
		told := q.answers()
		want := []string{"first", "large", "small 0", "small 1", "small 2", "small 3", "small 4"}
		if !slices.Equal(q.order, want) || told["large"].after != time.Second || told["small 4"].after != 1500*time.Millisecond {
			t.Errorf("order %v, large after %s, the last after %s", q.order, told["large"].after, told["small 4"].after)
		}
	})
}

// All callers for whom there is room go on together, so that a queue is as fast as its limit, even if the store is
// slow.
func TestAllWhoFitGoOnTogether(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		q.store.answerBy(func([]store.Decision) (bool, error) { time.Sleep(10 * time.Millisecond); return false, nil })
		limit := store.Limit{Algorithm: store.FixedWindow, Count: 100, Period: time.Second}
		req := store.Request{Key: store.Key{Subject: "u"}, Limit: limit, Cost: 1}
		all := req
		all.Cost = 100
		q.come(t.Context(), "all", all)
		time.Sleep(15 * time.Millisecond)
		for n := range 100 {
			q.come(t.Context(), fmt.Sprint(n), req)
			if n == 0 {
				time.Sleep(15 * time.Millisecond) // it learns how long it will wait
			}
		}
		var latest time.Duration
		for _, a := range q.answers() {
			latest = max(latest, a.after)
		}
		window := q.begin.Truncate(time.Second).Add(time.Second).Sub(q.begin)
		if latest > window+20*time.Millisecond || q.store.calls.Load() != 102 {
			t.Errorf("the last of 101 came %s after the window, after %d calls", latest-window, q.store.calls.Load())
		}
	})
}

// A caller behind others leaves at its deadline, without a call of the store.
func TestWhoStandsBehindOthersLeavesAtHisDeadline(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		q.come(t.Context(), "first", takes("u", 10, 10*time.Second, 10))
		q.come(t.Context(), "large", takes("u", 10, 10*time.Second, 8)) // in 8 s
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls := q.store.calls.Load()
		q.come(short, "small", takes("u", 10, 10*time.Second, 1)) // it would fit in a second if "large" left
		leaving, leave := context.WithCancel(t.Context())
		q.come(leaving, "leaving", takes("u", 10, 10*time.Second, 1))
		time.Sleep(1500 * time.Millisecond)
		leave()
		synctest.Wait()
		if n := q.store.calls.Load() - calls; n != 0 {
			t.Errorf("%d calls for callers who stood behind others and left", n)
		}
		told := q.answers()
		d := told["small"]
		if d.err != nil || d.Allowed || d.Unguarded || d.after != time.Second || d.RetryAfter != 7*time.Second || d.Used != 10 ||
			d.ResetAfter != 9*time.Second || d.Remaining != 0 {
			t.Errorf("at his deadline: %+v", d)
		}
		if d := told["leaving"]; !errors.Is(d.err, context.Canceled) || d.after != 1500*time.Millisecond {
			t.Errorf("who left: %+v", d)
		}
		if d := told["large"]; !d.Allowed || d.after != 8*time.Second {
			t.Errorf("who stayed: %+v", d)
		}
	})
}

// A turn that cannot come in time is denied at once, if that is known without a call. A caller that would be in
// time if those before it left is not denied.
func TestATurnThatIsKnownToComeTooLateIsDeniedAtOnce(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		perHour := takes("u", 1, time.Hour, 1)
		q.come(t.Context(), "first", perHour)
		early, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		q.come(t.Context(), "second", perHour)
		q.come(early, "third", perHour) // in time if "second" leaves
		calls := q.store.calls.Load()
		minute, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		q.come(minute, "late", perHour)
		q.mu.Lock()
		d, told := q.told["late"]
		q.mu.Unlock()
		if !told || d.err != nil || d.Allowed || d.RetryAfter != time.Hour || q.store.calls.Load() != calls {
			t.Errorf("%+v after %d calls", d, q.store.calls.Load()-calls)
		}
		// "second" gets its turn in an hour, and then the store denies "third".
		if d := q.answers()["third"]; d.Allowed || d.err != nil || d.after != time.Hour {
			t.Errorf("%+v", d)
		}
	})
	inQueue(t, func(t *testing.T, q *queue) {
		perHour := takes("u", 1, time.Hour, 1)
		q.come(t.Context(), "first", perHour)
		leaving, leave := context.WithCancel(t.Context())
		q.come(leaving, "second", perHour)
		early, cancel := context.WithTimeout(t.Context(), 61*time.Minute)
		defer cancel()
		q.come(early, "third", perHour)
		time.Sleep(59 * time.Minute)
		leave()
		if d := q.answers()["third"]; !d.Allowed || d.after != time.Hour {
			t.Errorf("%+v", d)
		}
	})
}

// A wait for one key of a call does not block callers of another key of it.
func TestALongWaitForOneKeyHoldsUpNobodyAtAnother(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		ada, all := takes("ada", 1, time.Hour, 1), takes("all", 10, time.Second, 1)
		all.Limit.Burst = 1
		q.come(t.Context(), "ada 1", ada, all)
		q.come(t.Context(), "ada 2", ada, all) // in an hour
		q.come(t.Context(), "ada 3", ada, all)
		for n := range 5 {
			q.come(t.Context(), fmt.Sprint("other ", n), all)
		}
		told := q.answers()
		if last := told["other 4"]; !last.Allowed || last.after > 600*time.Millisecond {
			t.Errorf("the last of the others: %+v", last)
		}
		if second := told["ada 2"]; second.after < time.Hour || second.after > time.Hour+time.Second {
			t.Errorf("the second of an hour came after %s", second.after)
		}
	})
}

// A call with two keys gets its turn, even if there are always callers for one of them.
func TestNobodyStarvesWhoNeedsTwoKeys(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		a, b := takes("a", 50, time.Second, 1), takes("b", 40, time.Second, 1)
		a.Limit.Burst, b.Limit.Burst = 1, 1
		sets := map[string][]store.Request{"a": {a}, "b": {b}, "both": {a, b}, "also both": {b, a}}
		got := map[string]int{}
		var mu sync.Mutex
		until := time.Now().Add(20 * time.Second)
		for name, reqs := range sets {
			for range 5 {
				q.all.Go(func() {
					for time.Now().Before(until) {
						if decisions, err := q.WaitAll(t.Context(), reqs...); err != nil || !store.AllAllowed(decisions) {
							t.Errorf("%s: %+v, %v", name, decisions, err)
						}
						mu.Lock()
						got[name]++
						mu.Unlock()
					}
				})
			}
		}
		q.all.Wait()
		units := 0
		for name, n := range got {
			units += n
			if n < 100 { // of about 1,000 units of a and 800 of b
				t.Errorf("%s had %d turns: %v", name, n, got)
			}
		}
		if calls := int(q.store.calls.Load()); calls > 3*units {
			t.Errorf("%d calls for %d turns", calls, units)
		}
	})
}

// For any sets of keys, and whoever leaves, all others get their turns, and the queue is empty at the end.
func TestNobodyIsForgotten(t *testing.T) {
	for seed := range uint64(60) {
		inQueue(t, func(t *testing.T, q *queue) {
			random := rand.New(rand.NewPCG(seed, 1))
			algorithms := store.Algorithms()
			limits := make([]store.Limit, 4)
			for i := range limits {
				limits[i] = store.Limit{Algorithm: algorithms[random.IntN(len(algorithms))], Count: 1 + random.Int64N(4),
					Period: time.Second}
			}
			for n := range 60 {
				var reqs []store.Request
				for i := range limits {
					if random.IntN(2) == 0 || i == len(limits)-1 && len(reqs) == 0 {
						reqs = append(reqs, store.Request{Key: store.Key{Subject: fmt.Sprint(i), Name: "l"}, Limit: limits[i],
							Cost: 1 + random.Int64N(limits[i].Count), Shadow: random.IntN(8) == 0})
					}
				}
				ctx, stop := t.Context(), func() {}
				leaves := random.IntN(3)
				after := time.Duration(random.Int64N(int64(30 * time.Second)))
				switch leaves {
				case 0:
					ctx, stop = context.WithTimeout(ctx, after)
				case 1:
					ctx, stop = context.WithCancel(ctx)
					time.AfterFunc(after, stop)
				}
				q.all.Go(func() {
					defer stop()
					time.Sleep(time.Duration(n) * 50 * time.Millisecond)
					decisions, err := q.WaitAll(ctx, reqs...)
					gone := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
					if leaves == 2 && (err != nil || !store.AllAllowed(decisions)) || err != nil && !gone {
						t.Errorf("seed %d: %+v, %v", seed, decisions, err)
					}
				})
			}
			q.all.Wait()
		})
	}
}

// While the store is away everybody calls it, so that a caller does not wait for the time-outs of all those before
// it.
func TestNobodyWaitsBehindAStoreThatIsAway(t *testing.T) {
	for name, away := range map[string]func([]store.Decision) error{
		"an error": func([]store.Decision) error { return store.ErrUnavailable },
		"a failure policy": func(decisions []store.Decision) error {
			decisions[0] = store.Decision{Allowed: true, Unguarded: true, DecidedBy: store.DecidedByFailurePolicy}
			return nil
		},
	} {
		inQueue(t, func(t *testing.T, q *queue) {
			req := takes("u", 1, time.Minute, 1)
			for n := range 20 {
				q.come(t.Context(), fmt.Sprint(n), req)
			}
			q.store.answerBy(func(decisions []store.Decision) (bool, error) {
				time.Sleep(time.Second)
				return true, away(decisions)
			})
			for who, d := range q.answers() {
				if d.after > time.Minute+2*time.Second+time.Millisecond {
					t.Errorf("%s: %s was answered after %s", name, who, d.after)
				}
			}
		})
	}
}

// In an outage a cost that does not fit the local share does not block a cost that does.
func TestALocalShareHoldsUpNobodyWhoFits(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		var back atomic.Bool
		q.store.answerBy(func([]store.Decision) (bool, error) {
			if back.Load() {
				return false, nil
			}
			return true, store.ErrUnavailable
		})
		soft := storecall.New(layers.WithFailure(q.store, layers.Failure{Policy: store.LocalOnError}))
		q.Caller = soft
		q.come(t.Context(), "large", takes("u", 100, time.Minute, 100)) // the share is 25
		q.come(t.Context(), "small", takes("u", 100, time.Minute, 1))
		if _, err := soft.Wait(t.Context(), store.Key{Subject: "u"}, takes("u", 100, time.Minute, 1).Limit, 1); err != nil {
			t.Error(err)
		}
		if after := time.Since(q.begin); after != 0 {
			t.Errorf("a cost that fits was let through after %s", after)
		}
		time.Sleep(10500 * time.Millisecond)
		back.Store(true)
		if d := q.answers()["large"]; d.err != nil || !d.Allowed || d.DecidedBy != store.DecidedByStore || d.after != 11*time.Second {
			t.Errorf("when the store was back: %+v", d)
		}
	})
}

// In an outage everybody calls at once, so one gets in before its turn. All others keep their places.
func TestAfterAnOutageTheOrderIsAsBefore(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		req := takes("u", 1, time.Second, 1)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			q.come(t.Context(), name, req)
		}
		var again atomic.Bool
		q.store.answerBy(func([]store.Decision) (bool, error) {
			if again.Swap(true) {
				return false, nil
			}
			return true, store.ErrUnavailable // only for the call of b
		})
		told := q.answers()
		if len(q.order) != 4 || !slices.IsSorted(q.order[2:]) || !errors.Is(told["b"].err, store.ErrUnavailable) {
			t.Errorf("order %v; %+v", q.order, told["b"])
		}
	})
}

// A panic of the store costs only the one caller its turn.
func TestAPanicLosesNobody(t *testing.T) {
	inQueue(t, func(t *testing.T, q *queue) {
		req := takes("u", 1, time.Second, 1)
		for _, name := range []string{"a", "b", "c", "d"} {
			q.come(t.Context(), name, req)
		}
		var again atomic.Bool
		q.store.answerBy(func([]store.Decision) (bool, error) {
			if !again.Swap(true) {
				panic("a bug")
			}
			return false, nil
		})
		told := q.answers()
		if want := []string{"a", "c", "d"}; !slices.Equal(q.order, want) || told["b"].err == nil || told["d"].after > 3*time.Second {
			t.Errorf("order %v, want %v; %+v", q.order, want, told)
		}
	})
}
