// Package prom has metrics of a limiter for Prometheus. It is a separate Go module, so only a service that imports
// it needs Prometheus' client.
//
//	metrics := prom.New()
//	prometheus.MustRegister(metrics)
//	limits, err := limiter.New(store, metrics.Observer(), limiter.Breaker{}, limiter.FailLocal(0.25))
//	if err != nil {
//		return err
//	}
//	metrics.Watch(limits)
//
// The metrics are:
//
//	limiter_calls_total{operation,outcome,decided_by}  calls as their callers see them
//	limiter_store_call_duration_seconds{operation}     time of the calls to the store, a histogram
//	limiter_failures_total{kind}                       errors of the store after which a policy decided
//	limiter_breaker_changes_total{to}                  changes of the breakers
//	limiter_breaker_state{part,state}                  1 for the state of a breaker, else 0
//
// No label contains a key or another text of a client: operation and outcome are words of [limiter.Call],
// decided_by is one of [limiter.Decider] and empty after an error, kind is "unavailable" or "outcome-unknown". A
// part is a master of a Cluster, and empty for other stores.
//
// For several limiters make one Metrics each, and register each with its own label:
//
//	labels := prometheus.Labels{"limiter": "login"}
//	prometheus.WrapRegistererWith(labels, prometheus.DefaultRegisterer).MustRegister(metrics)
package prom

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// durations are the bounds of the histogram, in seconds: from the time of a memory store to the time that callers
// wait.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

var states = []limiter.BreakerState{limiter.BreakerClosed, limiter.BreakerOpen, limiter.BreakerHalfOpen}

const unavailable, outcomeUnknown = "unavailable", "outcome-unknown"

// Metrics are the metrics of a limiter: a [prometheus.Collector]. It is safe for concurrent use.
type Metrics struct {
	calls    *prometheus.CounterVec   // by operation, outcome, decided_by
	took     *prometheus.HistogramVec // by operation
	failures *prometheus.CounterVec   // by kind
	changes  *prometheus.CounterVec   // by to

	breakers *prometheus.Desc

	watched atomic.Pointer[func() limiter.Stats]
}

// New returns metrics that are all zero.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &Metrics{
		calls: counter("limiter_calls_total", "Calls of the limiter, as callers saw them.", "operation", "outcome",
			"decided_by"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "limiter_store_call_duration_seconds", Help: "Time that the store itself took for a call.",
			Buckets: durations,
		}, []string{"operation"}),
		failures: counter("limiter_failures_total", "Errors of the store in place of which the limiter decided.",
			"kind"),
		changes: counter("limiter_breaker_changes_total", "Changes of the state of a breaker.", "to"),
		breakers: gauge("limiter_breaker_state",
			"1 for the state that the breaker is in, else 0. A Cluster has a breaker for each part, which is a master.",
			"part", "state"),
	}
	// Create these series now, so that their first increase is visible.
	for _, kind := range []string{unavailable, outcomeUnknown} {
		m.failures.WithLabelValues(kind)
	}
	for _, to := range states {
		m.changes.WithLabelValues(to.String())
	}
	return m
}

// Observer returns the observer that counts. Give it to limiter.New or policyfile.NewRuntime. You can wrap its
// functions before; OnOverrides and OnDenialLog are free.
func (m *Metrics) Observer() limiter.Observer {
	return limiter.Observer{
		OnCall: func(_ context.Context, call limiter.Call) {
			by := ""
			if call.Err == nil {
				by = call.Decisions.DecidedBy().String()
			}
			m.calls.WithLabelValues(call.Operation, call.Outcome, by).Inc()
		},
		OnStoreCall: func(_ context.Context, call limiter.Call) {
			m.took.WithLabelValues(call.Operation).Observe(call.Took.Seconds())
		},
		OnFailure: func(err error) {
			kind := unavailable
			if errors.Is(err, limiter.ErrOutcomeUnknown) {
				kind = outcomeUnknown
			}
			m.failures.WithLabelValues(kind).Inc()
		},
		OnBreaker: func(change limiter.BreakerChange) { m.changes.WithLabelValues(change.To.String()).Inc() },
	}
}

// Watch sets whose figures the gauges show: a *limiter.Limiter or a *policyfile.Runtime. Before it there are no
// gauges, nor after Watch(nil). The last call wins.
func (m *Metrics) Watch(limits interface{ Stats() limiter.Stats }) {
	if limits == nil {
		m.watched.Store(nil)
		return
	}
	stats := limits.Stats
	m.watched.Store(&stats)
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, counted := range m.counted() {
		counted.Describe(descriptions)
	}
	descriptions <- m.breakers
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	for _, counted := range m.counted() {
		counted.Collect(metrics)
	}
	watched := m.watched.Load()
	if watched == nil {
		return
	}
	for part, now := range (*watched)().Breakers {
		for _, state := range states {
			value := 0.0
			if state == now {
				value = 1
			}
			metrics <- prometheus.MustNewConstMetric(m.breakers, prometheus.GaugeValue, value, part, state.String())
		}
	}
}

func (m *Metrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.took, m.failures, m.changes}
}
