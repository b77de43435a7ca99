package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/layers"
)

// storeMetrics are about the store itself, inside all layers.
type storeMetrics struct {
	took    *prometheus.HistogramVec // by operation
	errors  *prometheus.CounterVec   // by kind
	batches prometheus.Histogram

	tookBy   [operations]prometheus.Observer
	errorsBy map[string]prometheus.Counter
}

func (s *storeMetrics) register(r prometheus.Registerer) {
	s.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "limitctl_store_duration_seconds", Help: "Time that the store itself took for a call.", Buckets: durations,
	}, []string{"operation"})
	s.errors = prometheus.NewCounterVec(counter("store_errors_total", "Errors of the store itself, by kind."), []string{"kind"})
	s.batches = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "limitctl_store_batch_size",
		Help:    "Calls that went to a Redis server together. One that went alone counts as 1.",
		Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128},
	})
	r.MustRegister(s.took, s.errors, s.batches)
	for op, word := range operationWords {
		s.tookBy[op] = s.took.WithLabelValues(word)
	}
	s.errorsBy = map[string]prometheus.Counter{}
	for _, kind := range errorWords {
		if kind != unknownPolicyError {
			s.errorsBy[kind] = s.errors.WithLabelValues(kind)
		}
	}
}

// StoreObserver measures the calls of the store and counts its errors. It belongs next to the store.
func (m *Metrics) StoreObserver() layers.Observer {
	return layers.Observer{OnCall: func(_ context.Context, call layers.Call) {
		m.store.tookBy[operationOf(call.Op)].Observe(call.Took.Seconds())
		if call.Err != nil {
			m.store.errorsBy[errorWord(call.Err)].Inc()
		}
	}}
}

// Breaker counts a change of the store's breaker.
func (m *Metrics) Breaker(change layers.BreakerChange) { m.breaker.changed(change) }

// Batch counts calls that went to a server together.
func (m *Metrics) Batch(calls int) { m.store.batches.Observe(float64(calls)) }
