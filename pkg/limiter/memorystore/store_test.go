package memorystore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Dump writes every entry with its state and expiry.
func Dump(s *Store) string {
	var entries []*entry
	for i := range s.stripes {
		for _, at := range s.stripes[i].slots {
			if at.entry != nil {
				entries = append(entries, at.entry)
			}
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.key.Subject, b.key.Subject), cmp.Compare(a.key.Name, b.key.Name))
	})
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %x until %d\n", e.key, e.state.AppendRecord(nil), e.expiresAt)
	}
	return b.String()
}

// Keys that are used once do not stay: the store holds only those of about one period, and after that
// calls on other keys remove them and release the memory of the tables.
func TestOneOffKeysAreReclaimed(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	backend := New(WithClock(func() time.Time { return now }))
	l := storecall.New(backend)
	limit := store.Limit{Count: 1, Period: time.Second}
	const keys = 200_000
	const perSecond = 10_000 // the number in use at a time
	most := 0
	for i := range keys {
		now = now.Add(time.Second / perSecond)
		if _, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("ip:%d", i), Name: "x"}, limit, 1); err != nil {
			t.Fatal(err)
		}
		if i%10_000 == 0 {
			most = max(most, held(backend))
		}
	}
	if most > 2*perSecond {
		t.Errorf("%d keys were held at most, of which only %d were in use", most, perSecond)
	}

	now = now.Add(time.Hour)
	busy := store.Limit{Count: store.MaxCount, Period: time.Hour}
	for i := range 8 * sweepEvery * held(backend) { // enough for each stripe to sweep all its slots
		if _, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("busy:%d", i%1000), Name: "x"}, busy, 1); err != nil {
			t.Fatal(err)
		}
	}
	if left := held(backend); left > 1200 { // stripes with few busy keys sweep later
		t.Errorf("%d keys are held, of which 1000 are in use", left)
	}
	for i := range backend.stripes {
		if s := &backend.stripes[i]; len(s.slots) > 8*max(s.held, minSlots) {
			t.Errorf("stripe %d has %d slots and holds %d entries", i, len(s.slots), s.held)
		}
	}
}

func held(s *Store) int {
	n := 0
	for i := range s.stripes {
		n += s.stripes[i].held
	}
	return n
}

// A stripe's table finds what a map would find, through any additions and removals, even if hashes collide.
func TestTableAgainstAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := stripe{slots: make([]slot, minSlots)}
		model := map[store.Key]*entry{}
		hashOf := func(key store.Key) uint64 { return uint64(len(key.Subject)) * 5 % 23 } // few, and close together
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			key := store.Key{Subject: strings.Repeat("x", rapid.IntRange(1, 40).Draw(t, "key")),
				Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")}
			if model[key] == nil {
				e := &entry{key: key}
				s.add(hashOf(key), e)
				model[key] = e
			} else if rapid.Bool().Draw(t, "remove") {
				s.remove(s.index(hashOf(key), key))
				delete(model, key)
			}
			if s.held != len(model) {
				t.Fatalf("%d entries are held, want %d", s.held, len(model))
			}
			for n := range 41 {
				for _, name := range []string{"a", "b"} {
					key := store.Key{Subject: strings.Repeat("x", n), Name: name}
					if got := s.find(hashOf(key), key); got != model[key] {
						t.Fatalf("key %v is found as %p, want %p", key, got, model[key])
					}
				}
			}
		}
	})
}

func TestTakeAllocatesNothing(t *testing.T) {
	for _, algorithm := range store.Algorithms() {
		l := storecall.New(New())
		limit := store.Limit{Algorithm: algorithm, Count: 1000, Period: time.Hour}
		key := store.Key{Subject: "user:42", Name: "limit"}
		take := func() {
			if _, err := l.Take(context.Background(), key, limit, 1); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 { // so that the log has grown
			take()
		}
		if allocations := testing.AllocsPerRun(1000, take); allocations != 0 {
			t.Errorf("%s: %v allocations for a take", algorithm, allocations)
		}
	}
}

// Tokens are removed soon after their end.
func TestTokensDoNotPileUp(t *testing.T) {
	now := time.Unix(1e9, 0)
	backend := New(WithClock(func() time.Time { return now }))
	take := func(n int) {
		t.Helper()
		req := two(fmt.Sprint(n))
		req.Token, req.TokenTTL = fmt.Sprint(n), time.Minute
		err := backend.Decide(context.Background(), store.Take, []store.Request{req}, make([]store.Decision, 1))
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10_000 {
		take(n)
		now = now.Add(time.Second)
	}
	if held := len(backend.tokens.byToken); held < 60 || held > 100 {
		t.Errorf("%d tokens are held, and 60 are remembered", held)
	}
	now = now.Add(time.Hour)
	for range 20 {
		take(-1)
	}
	if held := len(backend.tokens.byToken); held != 1 || backend.tokens.most > 4 {
		t.Errorf("%d tokens are held, in a map that had %d, and one is remembered", held, backend.tokens.most)
	}
}
