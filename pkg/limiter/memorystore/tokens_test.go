package memorystore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Tokens are removed after their end.
func TestTokensDoNotPileUp(t *testing.T) {
	now := time.Unix(1e9, 0)
	backend := New(WithClock(func() time.Time { return now }))
	take := func(n int) {
		t.Helper()
		req := store.Request{Key: store.Key{Subject: "a"}, Limit: store.Limit{Count: 1e9, Period: time.Second}, Cost: 1,
			Token: fmt.Sprint(n), TokenTTL: time.Minute}
		if err := backend.Decide(context.Background(), store.Take, []store.Request{req}, make([]store.Decision, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10_000 {
		take(n)
		now = now.Add(time.Second)
	}
	if held := len(backend.tokens.byToken); held > 60 || len(backend.tokens.byEnd) != held {
		t.Errorf("%d tokens are held, %d in the order of their ends; 60 are remembered", held, len(backend.tokens.byEnd))
	}
	now = now.Add(time.Hour)
	take(-1)
	if held := len(backend.tokens.byToken); held != 1 {
		t.Errorf("%d tokens are held, and one is remembered", held)
	}
}
