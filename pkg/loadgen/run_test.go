package loadgen

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// noop allows everything at once.
type noop struct{}

func (noop) Decide(_ context.Context, _ store.Op, _ []store.Request, decisions []store.Decision) error {
	for i := range decisions {
		decisions[i] = store.Decision{Allowed: true}
	}
	return nil
}

func (noop) Close() error { return nil }

func population(t testing.TB, subjects int, limits ...string) *Population {
	t.Helper()
	parsed := make([]store.Limit, len(limits))
	for i, text := range limits {
		var err error
		if parsed[i], err = store.ParseLimit(text); err != nil {
			t.Fatal(err)
		}
	}
	population, err := NewPopulation(subjects, func(subject int) (requests []store.Request, err error) {
		for _, limit := range parsed {
			requests = append(requests, store.Request{Key: store.Key{Subject: fmt.Sprint("user:", subject)}, Limit: limit})
		}
		return requests, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return population
}

// BenchmarkClosedLoop measures the cost of the generator: how many decisions it makes in a second with stores that
// cost nothing or little.
func BenchmarkClosedLoop(b *testing.B) {
	for _, backend := range []store.Store{noop{}, memorystore.New()} {
		for _, workers := range []int{2, 64} {
			b.Run(fmt.Sprintf("%T/%d", backend, workers), func(b *testing.B) {
				r := Run(b.Context(), Config{
					Store: backend, Population: population(b, 1000, "1000000/1s"), Mix: Mix{Evenly(1000), Costs{1, 1}},
					Workers: workers, Duration: time.Hour, Requests: int64(b.N), LateAfter: time.Second,
				})
				if r.Requests != int64(b.N) || r.Allowed+r.Denied != r.Requests {
					b.Errorf("%+v", r)
				}
				b.ReportMetric(float64(r.Requests)/r.Elapsed.Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkOpenLoop measures the lag at 50,000 requests a second.
func BenchmarkOpenLoop(b *testing.B) {
	for b.Loop() {
		r := Run(b.Context(), Config{
			Store: noop{}, Population: population(b, 1000, "1000000/1s"), Load: NewLoad(Uniform([]Stage{{3 * time.Second, 50_000, 50_000}}),
				Mix{Evenly(1000), Costs{1, 1}}, 1),
			Workers: 64, Duration: 3 * time.Second, LateAfter: time.Second,
		})
		b.ReportMetric(float64(r.Lag.ValueAtPercentile(99)), "p99-lag-µs")
		b.ReportMetric(float64(r.Latency.ValueAtPercentile(99)), "p99-latency-µs")
		b.ReportMetric(float64(r.Requests), "requests")
		b.ReportMetric(float64(r.Dropped), "dropped")
	}
}
