package filestore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func BenchmarkZZ(b *testing.B) {
	for _, n := range []int{1, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			store := open(b, filepath.Join(b.TempDir(), "limits.db"))
			l := limiter.New(store)
			keys := make([]string, n)
			for i, v := range rand.Perm(n) {
				keys[i] = fmt.Sprintf("user:%d", v)
			}
			lim := limiter.Limit{Count: 100_000_000, Period: 720 * time.Hour}
			i := 0
			for b.Loop() {
				if d, err := l.Take(context.Background(), limiter.Key{Subject: keys[i%n]}, lim, 1); err != nil || !d.Allowed {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
