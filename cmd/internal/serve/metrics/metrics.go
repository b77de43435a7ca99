// Package metrics counts what the server decides, for Prometheus.
package metrics

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Metrics are the server's. Each Metrics has a registry of its own.
type Metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
}

// New returns metrics that have counted nothing.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "limitctl_decisions_total", Help: "Calls by their outcome.",
		}, []string{"outcome"}),
	}
	m.registry.MustRegister(m.decisions)
	return m
}

// Observer counts what a store does.
func (m *Metrics) Observer() limiter.Observer {
	return limiter.Observer{OnCall: func(_ context.Context, call limiter.Call) {
		m.decisions.WithLabelValues(call.Outcome()).Inc()
	}}
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
