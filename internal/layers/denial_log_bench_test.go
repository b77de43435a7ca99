package layers_test

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// BenchmarkAllowedWithADenialLog measures an allowed take in memory, with overrides and a denial log around it.
func BenchmarkAllowedWithADenialLog(b *testing.B) {
	for _, c := range []struct {
		name string
		set  *store.Override
	}{
		{"no override", nil},
		{"an exemption", &store.Override{Effect: store.OverrideExempt, Reason: "r", By: "b"}},
		{"times 3", &store.Override{Effect: store.OverrideTimes, Thousandths: 3000, Reason: "r", By: "b"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			memory := memorystore.New()
			if c.set != nil {
				if _, err := memory.SetOverride(b.Context(), *c.set, time.Hour); err != nil {
					b.Fatal(err)
				}
			}
			backend := layers.WithDenialLog(layers.WithOverrides(memory, layers.Overrides{}), layers.DenialLog{})
			defer backend.Close()
			limit := store.Limit{Algorithm: store.TokenBucket, Count: store.MaxCount / 4, Burst: store.MaxCount / 4, Period: time.Second}
			b.RunParallel(func(pb *testing.PB) {
				reqs := []store.Request{{Key: store.Key{Subject: "tenant:acme:user:7", Name: "api/minute"}, Limit: limit, Cost: 1}}
				decisions := make([]store.Decision, 1)
				for pb.Next() {
					if err := backend.Decide(context.Background(), store.Take, reqs, decisions); err != nil || !decisions[0].Allowed {
						b.Errorf("%+v, %v", decisions[0], err)
						return
					}
				}
			})
		})
	}
}
