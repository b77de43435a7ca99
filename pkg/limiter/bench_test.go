package limiter_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Compares the package with the store that it calls.
func BenchmarkTake(b *testing.B) {
	kept := memorystore.New()
	l, err := limiter.New(kept)
	if err != nil {
		b.Fatal(err)
	}
	r := limiter.Per("second", 1e9, time.Second).For("u")
	b.Run("limiter", func(b *testing.B) {
		for b.Loop() {
			if d, err := l.Take(b.Context(), r); err != nil || !d.Allowed() {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		reqs := []store.Request{r.Stored()}
		decisions := make([]store.Decision, 1)
		for b.Loop() {
			if err := kept.Decide(b.Context(), store.Take, reqs, decisions); err != nil || !decisions[0].Allowed {
				b.Fatal(err)
			}
		}
	})
	b.Run("old", func(b *testing.B) {
		l := storecall.New(kept)
		key, limit := r.Stored().Key, r.Stored().Limit
		for b.Loop() {
			if d, err := l.Take(b.Context(), key, limit, 1); err != nil || !d.Allowed {
				b.Fatal(err)
			}
		}
	})
}
