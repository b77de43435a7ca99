package memorystore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func BenchmarkTakeOneKey(b *testing.B) {
	for _, kind := range store.Kinds() {
		b.Run(kind.String(), func(b *testing.B) {
			l := storecall.New(memorystore.New())
			limit := store.Limit{Algorithm: kind.Algorithm(), Count: store.MaxCount, Period: time.Minute} // faster than any loop
			switch {
			case limit.Algorithm == store.SlidingLog:
				limit.Count, limit.Period = store.MaxSlidingLogCount, time.Millisecond
			case kind.HasSlices():
				limit.Slices = 60
			}
			key := store.Key{Subject: "user:123456"}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Take(context.Background(), key, limit, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTakeManyKeys(b *testing.B) {
	l := storecall.New(memorystore.New())
	limit := store.Limit{Count: 1_000_000, Period: store.MaxPeriod} // so slow that no key lapses meanwhile
	keys := make([]store.Key, 100_000)
	for i := range keys {
		keys[i].Subject = fmt.Sprintf("user:%d", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := l.Take(context.Background(), keys[i*7919%len(keys)], limit, 1); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkDecideOneKey measures the store without a Limiter around it.
func BenchmarkDecideOneKey(b *testing.B) {
	backend := memorystore.New()
	reqs := []store.Request{{Key: store.Key{Subject: "user:123456"}, Limit: store.Limit{Count: 1000, Period: time.Minute}, Cost: 1}}
	decisions := make([]store.Decision, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := backend.Decide(context.Background(), store.Take, reqs, decisions); err != nil {
			b.Fatal(err)
		}
	}
}
