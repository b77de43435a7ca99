package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// awaitState spins until the lane of a key has that many exchanges under way and calls
// waiting. On a single server all keys have one.
func awaitState(s *redisstore.Store, key string, busy, waiting int) {
	for deadline := time.Now().Add(redistest.Patience); ; runtime.Gosched() {
		nowBusy, nowWaiting, abandoned := s.Load(key)
		if nowBusy == busy && nowWaiting == waiting && abandoned == 0 {
			return
		}
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("%d exchanges under way, %d calls waiting and %d exchanges abandoned; want %d, %d and 0",
				nowBusy, nowWaiting,
				abandoned, busy, waiting))
		}
	}
}

// Calls that find the server busy wait and go together, and the batch observer is told of each once. A call that gives
// up before it is sent has charged nothing and says so; one that gives up after does not know.
// Those that go together fail together, as one batch.
func TestConcurrentCallsShareAnExchange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, DisableIdentity: true})
	var told, largest atomic.Int64
	backend := newStore(t, client, redisstore.WithBatchObserver(func(n int) {
		told.Add(int64(n))
		for most := largest.Load(); int64(n) > most && !largest.CompareAndSwap(most, int64(n)); most = largest.Load() {
		}
	}))
	defer backend.Close()
	l := storecall.New(backend)
	key, limit := store.Key{Subject: "user:42"}, store.Limit{Count: 1000, Period: time.Hour}
	take := func(ctx context.Context, _ int) error {
		_, err := l.TakeAll(ctx, store.Request{Key: key, Limit: limit, Cost: 1},
			store.Request{Key: key, Limit: store.Limit{Count: 500, Period: time.Minute}, Cost: 1})
		return err
	}
	// As many connections as are needed are there before the server stops.
	var warm sync.WaitGroup
	for range lanes.InFlight {
		warm.Go(func() { client.Do(ctx, "BLPOP", "nothing", 0.1) })
	}
	warm.Wait()
	must(t, take(ctx, 0))
	l.Peek(ctx, key, limit, 1) // so that the server knows both scripts
	calls := server.CommandCalls("evalsha")
	told.Store(0)

	server.Pause()
	const waiting = 50
	first := enter(lanes.InFlight, take)
	awaitState(backend, "", lanes.InFlight, 0)
	next := enter(waiting, take)
	awaitState(backend, "", lanes.InFlight, waiting)
	hasty := enter(1, take)
	awaitState(backend, "", lanes.InFlight, waiting+1)
	if err := hasty.left()[0]; !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrGaveUp) ||
		store.IsAway(err) ||
		errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("giving up before the call was sent: %v; want an ErrGaveUp that is context.Canceled", err)
	}
	server.Resume()
	if err := errors.Join(append(first.wait(), next.wait()...)...); err != nil {
		t.Error(err)
	}
	d, err := l.Peek(ctx, key, limit, 1)
	if want := int64(1 + lanes.InFlight + waiting); err != nil || d.Used != want {
		t.Errorf("%d used (%v), want %d: those that did not give up", d.Used, err, want)
	}
	if made := server.CommandCalls("evalsha") - calls; made != lanes.InFlight+1 {
		t.Errorf("%d script calls; want %d for those that came first and 1 for all that waited", made, lanes.InFlight)
	}
	if want := int64(lanes.InFlight + waiting + 1); told.Load() != want || largest.Load() != waiting {
		t.Errorf("told of %d calls, of %d together at most; want %d and %d", told.Load(), largest.Load(), want, waiting)
	}
	awaitState(backend, "", 0, 0)

	server.Pause()
	first = enter(lanes.InFlight, take)
	awaitState(backend, "", lanes.InFlight, 0)
	next = enter(waiting, take)
	awaitState(backend, "", lanes.InFlight, waiting)
	server.Kill()
	batches := map[uint64]int{}
	for _, err := range append(first.wait(), next.wait()...) {
		var shared *store.BatchError
		if !store.IsAway(err) || errors.As(err, &shared) && shared.Batch == 0 {
			t.Errorf("when the server is gone: %v", err)
		} else if shared != nil {
			batches[shared.Batch]++
		}
	}
	if sizes := slices.Collect(maps.Values(batches)); !slices.Equal(sizes, []int{waiting}) {
		t.Errorf("batches of %d calls, want one of the %d that waited", sizes, waiting)
	}
}

// Callers that wait together under [store.WithBudget] are told that the store is away when its
// time is over, and those that leave before that they gave up.
func TestTheBudgetOfACrowdIsKept(t *testing.T) {
	server := redistest.Start(t)
	backend := openPatient(t, server)
	must(t, takingOf(backend)(ctx, 0))
	server.Pause()
	alone := enter(lanes.InFlight, takingOf(backend)) // so that others wait
	awaitState(backend, "", lanes.InFlight, 0)
	const many = 100
	short := enter(many, takingOf(store.WithBudget(backend, 20*time.Millisecond)))
	hurried, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	hasty := enterWith(hurried, cancel, many, takingOf(store.WithBudget(backend, forever)))
	for _, err := range short.wait() {
		if !store.IsAway(err) || errors.Is(err, store.ErrGaveUp) {
			t.Fatalf("the store's time was over: %v", err)
		}
	}
	for _, err := range hasty.wait() {
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
			t.Fatalf("the caller's time was over: %v", err)
		}
	}
	server.Resume()
	alone.wait()
}

// What a decision works with is used again. Callers that leave at any moment, and answers that come when they have
// left, disturb nobody: each caller has a limit of its own, and every answer must be about that one, with the count of
// its own takes. A server that loses its scripts meanwhile, and a key that is foreign, concern nobody else either.
func TestMergedCallersThatLeaveDisturbNobody(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", admin.OwnLayout("rl").StoreKey(store.Key{Subject: "user:1", Name: "n"}), "hello")
	backend := openPatient(t, server)
	l := storecall.New(backend)
	const callers, takes = 48, 400
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			key, limit := store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"}, yearly(int64(1_000_000+i))
			least, most := int64(0), int64(0) // what can be in use
			for n := range takes {
				ctx, cancel := context.WithCancel(ctx)
				if random.IntN(2) == 0 {
					ctx, cancel = context.WithTimeout(
						ctx, time.Duration(random.IntN(1500))*time.Microsecond)
				}
				if i == 0 && n%20 == 0 { // so that whole exchanges are left
					server.Do("SCRIPT", "FLUSH")
					server.Do("EVAL", "for _ = 1, 300000 do end", 0)
				}
				d, err := l.Take(ctx, key, limit, 1)
				cancel()
				switch {
				case errors.Is(err, store.ErrForeign) && i == 1:
				case err == nil:
					least, most = least+1, most+1
					if !d.Allowed || d.Used < least || d.Used > most || d.Used+d.Remaining != limit.Count {
						t.Errorf("user:%d: %+v; want %d to %d used of %d", i, d, least, most, limit.Count)
						return
					}
					least = d.Used // a take whose outcome is unknown may still come
				case errors.Is(err, store.ErrOutcomeUnknown):
					most++
				case !errors.Is(err, store.ErrGaveUp):
					t.Errorf("user:%d: %v", i, err)
				}
			}
			d, err := l.Peek(ctx, key, limit, 1)
			if (err != nil) != (i == 1) || d.Used < least || d.Used > most || most == 0 && i != 1 {
				t.Errorf("user:%d: %d used (%v), want %d to %d", i, d.Used, err, least, most)
			}
		})
	}
	all.Wait()
	awaitState(backend, "", 0, 0)
}
