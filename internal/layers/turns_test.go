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
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// counting counts the calls of a store, and stops endless ones. hook, if set, runs first and may answer itself.
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

// queue is a Waiter whose callers come one after the other, in virtual time.
type queue struct {
	*layers.Waiter
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
		q := &queue{Waiter: &layers.Waiter{Store: backend}, t: t, store: backend, begin: time.Now(),
			told: map[string]answer{}}
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
		decisions, err := q.Take(ctx, reqs...)
		q.tell(name, decisions, err)
	})
	synctest.Wait()
}

// comes is come for a caller that stays.
func (q *queue) comes(name string, reqs ...store.Request) { q.come(q.t.Context(), name, reqs...) }

// comesFor is come for a caller that leaves after a while.
func (q *queue) comesFor(stays time.Duration, name string, reqs ...store.Request) {
	ctx, leave := context.WithCancel(q.t.Context())
	time.AfterFunc(stays, leave)
	q.come(ctx, name, reqs...)
}

// comesUntil is come for a caller with a deadline.
func (q *queue) comesUntil(deadline time.Duration, name string, reqs ...store.Request) {
	ctx, cancel := context.WithTimeout(q.t.Context(), deadline)
	q.t.Cleanup(cancel)
	q.come(ctx, name, reqs...)
}

func (q *queue) tell(name string, decisions []store.Decision, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
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

// For any sets of keys, and whoever leaves, all others get their turns, and the queue is empty at the end.
func TestNobodyIsForgotten(t *testing.T) {
	for seed := range uint64(60) {
		inQueue(t, func(t *testing.T, q *queue) {
			random := rand.New(rand.NewPCG(seed, 1))
			algorithms := store.Algorithms()
			limits := make([]store.Limit, 4)
			for i := range limits {
				limits[i] = store.Limit{Algorithm: algorithms[random.IntN(len(algorithms))],
					Count:  1 + random.Int64N(4),
					Period: time.Second}
			}
			for n := range 60 {
				var reqs []store.Request
				for i := range limits {
					if random.IntN(2) == 0 || i == len(limits)-1 && len(reqs) == 0 {
						reqs = append(
							reqs, store.Request{Key: store.Key{Subject: fmt.Sprint(i), Name: "l"}, Limit: limits[i],
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
					decisions, err := q.Take(ctx, reqs...)
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

// While the store is away everybody calls it, so that nobody waits for the time-outs of all those before.
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
				q.comes(fmt.Sprint(n), req)
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

// An outage, and a panic of the store, cost only one caller its turn. In an outage everybody calls at once, so one
// gets in before its turn; all others keep their places.
func TestAFailureLosesOnlyOneTurn(t *testing.T) {
	for _, panics := range []bool{false, true} {
		inQueue(t, func(t *testing.T, q *queue) {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				q.comes(name, takes("u", 1, time.Second, 1))
			}
			var again atomic.Bool
			q.store.answerBy(func([]store.Decision) (bool, error) {
				switch {
				case again.Swap(true):
					return false, nil
				case panics:
					panic("a bug")
				default:
					return true, store.ErrUnavailable // only for the call of b
				}
			})
			told := q.answers()
			ordered := q.order
			if !panics {
				ordered = ordered[2:]
			}
			if len(q.order) != 4 || !slices.IsSorted(ordered) || told["b"].err == nil ||
				told["e"].after > 4*time.Second ||
				errors.Is(told["b"].err, store.ErrUnavailable) == panics {
				t.Errorf("panics %t: order %v; %+v", panics, q.order, told)
			}
		})
	}
}

// The work for a caller does not grow with the number of those who wait: an answer wakes only whom it concerns. A look
// reads the clock.
func TestTheWorkForACallerDoesNotGrowWithTheOthers(t *testing.T) {
	for name, scene := range map[string]struct {
		limit string
		fails bool // the first call
	}{
		"one after the other is let through": {limit: "token-bucket:100/1s"},
		"all are let through at once":        {limit: "fixed-window:100000/1h"},
		"a call fails":                       {limit: "token-bucket:100/1s", fails: true},
	} {
		perCaller := func(n int) (looks int64) {
			inQueue(t, func(t *testing.T, q *queue) {
				full := asking("u", scene.limit, 1)
				full.Cost = full.Limit.Capacity()
				q.others(store.Take, full)
				var read, calls atomic.Int64
				q.Waiter.Now = func() time.Time { read.Add(1); return time.Now() }
				q.store.answerBy(func([]store.Decision) (bool, error) {
					if calls.Add(1) == 1 && scene.fails {
						return true, store.ErrUnavailable
					}
					return false, nil
				})
				for number := range n {
					req := asking("u", scene.limit, 1+int64(number%3))
					req.Leave = int64(number % 5)
					q.all.Go(func() {
						time.Sleep(time.Duration(number) * time.Microsecond)
						q.Take(t.Context(), req)
					})
				}
				q.all.Wait()
				looks = read.Load() / int64(n)
			})
			return looks
		}
		if few, many := perCaller(100), perCaller(800); few == 0 || many > 2*few {
			t.Errorf("%s: %d looks for each of 100 callers, and %d for each of 800", name, few, many)
		}
	}
}
