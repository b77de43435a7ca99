package memorystore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Dump writes every entry with its state and expiry.
func Dump(s *Store) string {
	var lines []string
	for i := range s.stripes {
		for key, e := range s.stripes[i].keys.all {
			lines = append(lines, fmt.Sprintf("%s %x until %d", key, e.state.AppendRecord(nil), e.expiresAt))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
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
	for i := range 2 * sweepEvery * held(backend) { // enough for each stripe to sweep all its slots
		if _, err := l.Take(ctx, store.Key{Subject: fmt.Sprintf("busy:%d", i%1000), Name: "x"}, busy, 1); err != nil {
			t.Fatal(err)
		}
	}
	if left := held(backend); left > 1200 { // stripes with few busy keys sweep later
		t.Errorf("%d keys are held, of which 1000 are in use", left)
	}
	for i := range backend.stripes {
		if s := &backend.stripes[i].keys; s.most > max(64, 8*len(s.all)) {
			t.Errorf("stripe %d has a map that had %d keys, and holds %d", i, s.most, len(s.all))
		}
	}
}

func held(s *Store) int {
	n := 0
	for i := range s.stripes {
		n += len(s.stripes[i].keys.all)
	}
	return n
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
	if held := len(backend.tokens.byToken.all); held < 60 || held > 100 {
		t.Errorf("%d tokens are held, and 60 are remembered", held)
	}
	now = now.Add(time.Hour)
	for range 20 {
		take(-1)
	}
	if held := len(backend.tokens.byToken.all); held != 1 || backend.tokens.byToken.most > 64 {
		t.Errorf("%d tokens are held, in a map that had %d, and one is remembered", held, backend.tokens.byToken.most)
	}
}
