package lanes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// testSender returns a sender to server that decides by clock, or if that is nil by the server's.
func testSender(server *redistest.Server, clock func() time.Time) *Sender {
	client := server.Client()
	return NewSender(client, redisserver.New(client, "rl"), Settings{Own: "rl", Clock: clock, Budget: time.Minute})
}

// Merged decisions are those that a serial order would give: each group of limits all or
// nothing, those that ask the same in their order, in every field.
func TestMergedDecisionsAreSerial(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.Unix(1_700_000_000, 0)
	s := testSender(server, func() time.Time { return now })
	random := rand.New(rand.NewPCG(1, 2))
	kinds := []store.Algorithm{store.FixedWindow, store.SlidingCounter, store.TokenBucket, store.LeakyBucket}
	states := map[string]*store.State{}
	merges, repeats, decided, partly := 0, 0, 0, 0
	for range 900 {
		now = now.Add(time.Duration(random.Int64N(int64(2 * time.Second))))
		var asks []*ask
		for range 1 + random.IntN(40) {
			if len(asks) > 0 && random.IntN(2) == 0 { // many ask the same
				same := asks[len(asks)-1]
				asks = append(asks, &ask{op: same.op, reqs: same.reqs, keys: same.keys, words: same.words})
				continue
			}
			a := &ask{op: store.Take}
			if random.IntN(4) == 0 {
				a.op = store.Peek
			}
			subject := fmt.Sprintf("user:%d", random.IntN(6))
			for i := range 1 + random.IntN(3) {
				limit := store.Limit{Algorithm: kinds[(i+random.IntN(8)/7)%4], Count: 5 + random.Int64N(2),
					Period: time.Duration(1+i) * 10 * time.Second}
				req := store.Request{Key: store.Key{Subject: subject, Name: fmt.Sprint(i)}, Limit: limit,
					Cost:  1 + random.Int64N(8)/7,
					Leave: max(0, random.Int64N(8)-4)}
				a.reqs = append(a.reqs, req)
			}
			var err error
			if a.reqs, err = store.NormalizeAll(nil, a.op, a.reqs); err != nil {
				t.Fatal(err)
			}
			for i := range a.reqs {
				key := s.Own.StoreKey(a.reqs[i].Key)
				a.keys, a.words = append(a.keys, key), append(a.words, key)
			}
			asks = append(asks, a)
		}
		all := new(merger).merge(s, asks)
		n := 0
		for _, m := range all {
			n += m.keys
			if m.keys > maxMerged {
				t.Fatalf("%d keys in a call", m.keys)
			}
			for _, g := range m.groups {
				for a := g.first.same; a != nil; a = a.same {
					repeats++
				}
			}
		}
		merges += n - len(all)
		e := &exchange{calls: slices.Clone(asks)}
		must(t, s.single.exchange(context.Background(), e))
		var unusual []*ask
		for _, m := range new(merger).merge(s, asks) { // as the exchange merged them
			for _, g := range m.groups {
				allowed, times := 0, 0
				for a := g.first; a != nil; a = a.same {
					times++
					if a.apart { // a key had another kind's record
						unusual = append(unusual, a)
						continue
					}
					if a.err != nil {
						t.Fatal(a.err)
					}
					got := make([]store.Decision, len(a.reqs))
					must(t, s.readAnswer(a, got))
					decided++
					if compare(t, states, a, got, now) {
						allowed++
					}
				}
				if allowed > 0 && allowed < times {
					partly++
				}
			}
		}
		for _, a := range unusual { // their callers ask again after the exchange
			got := make([]store.Decision, len(a.reqs))
			w := s.NewWork()
			w.Reqs = append(w.Reqs[:0], a.reqs...)
			must(t, s.Decide(context.Background(), a.op, w, got))
			compare(t, states, a, got, now)
		}
	}
	if merges < 1000 || repeats < 1000 || decided < 10_000 || partly < 100 {
		t.Errorf("%d keys shared a call, %d decisions a group, of which %d were granted in part; %d decided", merges,
			repeats, partly,
			decided)
	}
}

// compare decides a by the model in states and reports whether it is allowed.
func compare(t *testing.T, states map[string]*store.State, a *ask, got []store.Decision, now time.Time) bool {
	t.Helper()
	want, before := make([]store.Decision, len(a.reqs)), make([]*store.State, len(a.reqs))
	for i, key := range a.keys {
		if states[key] == nil {
			states[key] = &store.State{}
		}
		before[i] = states[key]
	}
	_, _ = store.Decide(a.op, a.reqs, before, want, nil, store.InstantOf(now))
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v %+v:\n got %+v\nwant %+v", a.op, a.reqs, got, want)
	}
	return store.AllAllowed(want)
}

// A caller that left before its batch was written disturbs nobody, also where the server does not know the
// batch's script yet, so that it is sent once more.
func TestABatchOfAnUnknownScriptWithoutItsFirstCaller(t *testing.T) {
	s := testSender(redistest.Start(t), nil)
	e := &exchange{}
	for _, subject := range []string{"left", "stays"} {
		a := &ask{op: store.Take}
		var err error
		a.reqs, err = store.NormalizeAll(nil, a.op, []store.Request{{Key: store.Key{Subject: subject},
			Limit: store.Limit{Count: 5, Period: time.Minute}, Cost: 1}})
		must(t, err)
		a.keys = []string{s.Own.StoreKey(a.reqs[0].Key)}
		a.words = []any{a.keys[0]}
		e.calls = append(e.calls, a)
	}
	e.calls[0].state.Store(withdrawn)
	must(t, s.single.exchange(t.Context(), e))
	got := make([]store.Decision, 1)
	if a := e.calls[1]; a.err != nil || a.apart {
		t.Fatalf("%v, apart %v", a.err, a.apart)
	} else if err := s.readAnswer(a, got); err != nil || !got[0].Allowed || got[0].Used != 1 {
		t.Errorf("%+v, %v", got[0], err)
	}
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
