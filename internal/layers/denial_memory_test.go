package layers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// virtualTime is a clock that tests advance. The store's clock shows another time.
type virtualTime struct{ passed time.Duration }

var (
	localBegin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	storeBegin = time.Date(2030, 7, 1, 0, 0, 0, 0, time.UTC)
)

func (v *virtualTime) local() time.Time { return localBegin.Add(v.passed) }
func (v *virtualTime) store() time.Time { return storeBegin.Add(v.passed) }

// farStore is a remote store: it decides some time after it was called, and its answer takes some time, too.
type farStore struct {
	store.Store
	time      *virtualTime
	way, back time.Duration
	asked     int
	err       error
	afterTake func() // runs between the answer to a take and its arrival
}

func (s *farStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	s.asked++
	s.time.passed += s.way
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if op == store.Take && s.afterTake != nil {
		s.afterTake()
	}
	s.time.passed += s.back
	return errors.Join(err, s.err)
}

func newFarStore(way, back time.Duration) *farStore {
	v := new(virtualTime)
	return &farStore{Store: memorystore.New(memorystore.WithClock(v.store)), time: v, way: way, back: back}
}

// failer is a test, or one of rapid's.
type failer interface {
	Helper()
	Fatal(...any)
}

func ask(t failer, backend store.Store, key store.Key, limit store.Limit, cost int64) store.Decision {
	t.Helper()
	return decide(t, backend, store.Take, store.Request{Key: key, Limit: limit, Cost: cost})[0]
}

func TestADenialIsRememberedForMaxStaleAtMost(t *testing.T) {
	far := newFarStore(time.Millisecond, 0)
	memory := withMemory(far, store.DenialMemory{MaxStale: 200 * time.Millisecond}, far.time.local)
	key, limit := store.Key{Subject: "user:1"}, store.Limit{Algorithm: store.FixedWindow, Count: 1, Period: time.Hour}
	ask(t, memory, key, limit, 1)
	ask(t, memory, key, limit, 1)
	record := admin.Records(store.Key{Subject: key.Subject, Name: limit.DefaultName()})
	keys, _ := admin.KeyspaceOf(far.Store)
	if _, _, err := keys.Delete(context.Background(), record...); err != nil {
		t.Fatal(err)
	}
	far.time.passed += 198 * time.Millisecond
	if d := ask(t, memory, key, limit, 1); d.DecidedBy != store.DecidedByDenialMemory {
		t.Errorf("a moment before: %+v", d)
	}
	far.time.passed += time.Millisecond // 200 ms after the call
	if d := ask(t, memory, key, limit, 1); !d.Allowed {
		t.Errorf("200 ms later: %+v", d)
	}
}

func TestWhatTheDenialMemoryDoesNotAnswer(t *testing.T) {
	key, limit := store.Key{Subject: "user:1"}, store.Limit{Count: 10, Period: time.Hour}
	for name, test := range map[string]struct {
		op        store.Op // store.Take if it is the zero one
		change    func(req *store.Request)
		more      []store.Request
		err       error
		forgotten bool // what was remembered
	}{
		"a smaller cost":         {change: func(req *store.Request) { req.Cost = 2 }},
		"another limit":          {change: func(req *store.Request) { req.Limit.Count = 11 }},
		"more to be left":        {change: func(req *store.Request) { req.Leave = 1 }},
		"another key":            {change: func(req *store.Request) { req.Key.Subject = "user:2" }},
		"a token":                {change: func(req *store.Request) { req.Token = "t" }},
		"a shadow":               {change: func(req *store.Request) { req.Shadow = true }},
		"several together":       {more: []store.Request{{Key: store.Key{Subject: "b"}, Limit: limit, Cost: 1}}},
		"a cost that never fits": {change: func(req *store.Request) { req.Cost = 11 }, err: store.ErrNeverFits},
		"a peek":                 {op: store.Peek},
		"a refund":               {op: store.Refund, forgotten: true},
		"an adjustment":          {op: store.Adjust, forgotten: true},
		"a charge":               {op: store.Charge, forgotten: true},
		"a take of what fits":    {op: store.TakeUpTo, forgotten: true},
		"a settlement, though it fails": {op: store.Settle, change: func(req *store.Request) { req.Token = "t" },
			forgotten: true,
			err:       store.ErrUnknownToken},
	} {
		t.Run(name, func(t *testing.T) {
			far := newFarStore(0, 0)
			memory := withMemory(far, store.DenialMemory{}, far.time.local)
			ask(t, memory, key, limit, 8)
			ask(t, memory, key, limit, 3)
			if d := ask(t, memory, key, limit, 3); d.DecidedBy != store.DecidedByDenialMemory {
				t.Fatalf("not remembered: %+v", d)
			}
			req := store.Request{Key: key, Limit: limit, Cost: 3}
			if test.change != nil {
				test.change(&req)
			}
			reqs := append([]store.Request{req}, test.more...)
			before, decisions := far.asked, make([]store.Decision, len(reqs))
			err := memory.Decide(t.Context(), test.op, reqs, decisions)
			if !errors.Is(err, test.err) || decisions[0].DecidedBy != store.DecidedByStore ||
				test.err == nil && far.asked != before+1 {
				t.Errorf("the store was asked %d times more; %+v, %v", far.asked-before, decisions, err)
			}
			before = far.asked
			ask(t, memory, key, limit, 3)
			if asked := far.asked > before; asked != test.forgotten {
				t.Errorf("the store was asked again: %t; want %t", asked, test.forgotten)
			}
		})
	}
}

// A denial that arrives during a refund must not be remembered beyond it.
func TestADenialFromBeforeARefundIsNotRemembered(t *testing.T) {
	far := newFarStore(0, 0)
	key, limit := store.Key{Subject: "user:1"}, store.Limit{Count: 1, Period: time.Hour}
	memory := withMemory(far, store.DenialMemory{}, far.time.local)
	ask(t, memory, key, limit, 1)
	far.afterTake = func() {
		far.afterTake = nil
		decide(t, memory, store.Refund, store.Request{Key: key, Limit: limit, Cost: 1})
	}
	ask(t, memory, key, limit, 1)
	if d := ask(t, memory, key, limit, 1); !d.Allowed {
		t.Errorf("after the refund: %+v", d)
	}
}

// For any calls, the memory denies only what the store would deny, and its RetryAfter is never too short, and too
// long by at most the way of the answer.
func TestTheDenialMemorySaysWhatTheStoreWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, most.Microseconds()).Draw(t, name)) * time.Microsecond
		}
		far := newFarStore(duration("way", 20*time.Millisecond), duration("back", 20*time.Millisecond))
		memory := withMemory(far, store.DenialMemory{}, far.time.local)
		limit, asked := anyLimit(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "limit"), 0))), map[store.Key][]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "takes") {
			far.time.passed += duration("pause", limit.Period/4)
			req := store.Request{Key: store.Key{Subject: fmt.Sprint("user:", rapid.IntRange(1, 2).Draw(t, "user"))},
				Limit: limit}
			req.Leave = rapid.Int64Range(0, min(1, limit.Capacity()-1)).Draw(t, "leave")
			req.Cost = rapid.Int64Range(1, limit.Capacity()-req.Leave).Draw(t, "cost")
			needs, before := req.Cost+req.Leave, far.asked
			d := decide(t, memory, store.Take, req)[0]
			if by := d.DecidedBy == store.DecidedByDenialMemory; by != (far.asked == before) {
				t.Fatalf("the store was asked: %t, decided by %s", far.asked > before, d.DecidedBy)
			}
			if d.DecidedBy != store.DecidedByDenialMemory {
				asked[req.Key] = append(asked[req.Key], needs)
				continue
			}
			truth := decide(t, far.Store, store.Peek, req)[0]
			switch late := d.RetryAfter - truth.RetryAfter; {
			case d.Allowed || truth.Allowed:
				t.Fatalf("the memory says %+v, the store %+v", d, truth)
			case late > far.back:
				t.Fatalf("it says to retry after %s, the store after %s", d.RetryAfter, truth.RetryAfter)
			case d.At > truth.At || truth.At-d.At > store.Instant(far.back.Microseconds()):
				t.Fatalf("it says it is %d, the store %d", d.At, truth.At)
			case late < 0 && slices.Min(asked[req.Key]) == needs: // nobody who needs less was let through since
				t.Fatalf("it says to retry after %s already, the store after %s", d.RetryAfter, truth.RetryAfter)
			}
		}
	})
}

func TestTheDenialMemoryIsBounded(t *testing.T) {
	far := newFarStore(0, 0)
	memory := withMemory(far, store.DenialMemory{Keys: 64}, far.time.local)
	limit := store.Limit{Count: 1, Period: time.Hour}
	const subjects = 2_000
	for i := range subjects {
		key := store.Key{Subject: fmt.Sprint("user:", i)}
		ask(t, memory, key, limit, 1)
		ask(t, memory, key, limit, 1)
	}
	before, remembered := far.asked, 0
	for i := range subjects {
		asked := far.asked
		if d := ask(t, memory, store.Key{Subject: fmt.Sprint("user:", i)}, limit, 1); d.Allowed {
			t.Fatalf("allowed by a full memory: %+v", d)
		}
		if far.asked == asked {
			remembered++
		}
	}
	if remembered > 64 {
		t.Errorf("%d keys were remembered of at most 64, and the store was asked %d times", remembered,
			far.asked-before)
	}
}
