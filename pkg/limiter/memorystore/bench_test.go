package memorystore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func BenchmarkTakeOneKey(b *testing.B) {
	for _, kind := range limiter.Kinds() {
		b.Run(kind.String(), func(b *testing.B) {
			l := limiter.New(memorystore.New())
			limit := limiter.Limit{Algorithm: kind.Algorithm(), Count: limiter.MaxCount, Period: time.Minute} // faster than any loop
			switch {
			case limit.Algorithm == limiter.SlidingLog:
				limit.Count, limit.Period = limiter.MaxSlidingLogCount, time.Millisecond
			case kind.HasSlices():
				limit.Slices = 60
			}
			key := limiter.Key{Subject: "user:123456"}
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
	l := limiter.New(memorystore.New())
	limit := limiter.Limit{Count: 1_000_000, Period: limiter.MaxPeriod} // so slow that no key lapses meanwhile
	keys := make([]limiter.Key, 100_000)
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

// BenchmarkDecideOneKey is the store by itself, without the Limiter's face.
func BenchmarkDecideOneKey(b *testing.B) {
	store := memorystore.New()
	reqs := []limiter.Request{{Key: limiter.Key{Subject: "user:123456"}, Limit: limiter.Limit{Count: 1000, Period: time.Minute}, Cost: 1}}
	decisions := make([]limiter.Decision, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := store.Decide(context.Background(), limiter.Take, reqs, decisions); err != nil {
			b.Fatal(err)
		}
	}
}
