// Package metrics counts the decisions of the server, and the answers in a load test, for Prometheus.
//
// Labels contain only names of the configuration and words of this package, so the number of series is bounded
// whatever clients send.
package metrics

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Metrics are the metrics of the server, in their own registry. The methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	decisions, granted           *prometheus.CounterVec // by policy and limit
	calls, errors                *prometheus.CounterVec // by policy
	took, storeTook              *prometheus.HistogramVec
	storeErrors                  *prometheus.CounterVec
	batches                      prometheus.Observer
	breakerState                 *prometheus.GaugeVec
	breakerChanges               *prometheus.CounterVec
	reloads                      *prometheus.CounterVec
	loaded, stale                prometheus.Gauge
	config                       *prometheus.GaugeVec
	requests, connectionsRefused *prometheus.CounterVec // by listener
	requestTook                  *prometheus.HistogramVec
	inFlight, connections        *prometheus.GaugeVec
	refused                      prometheus.Counter
	grpcCalls                    *prometheus.CounterVec

	mu    sync.RWMutex    // for the fields below
	known map[series]bool // those in force
	parts map[string]bool // of the store that have a series of their breaker
}

// New returns metrics of the program of that version, which are all zero.
func New(version string) *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	make := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return make.NewCounterVec(prometheus.CounterOpts{Name: "limitctl_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return make.NewGaugeVec(prometheus.GaugeOpts{Name: "limitctl_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return make.NewHistogramVec(prometheus.HistogramOpts{Name: "limitctl_" + name, Help: help, Buckets: buckets},
			labels)
	}
	// From the time of a memory store to the time that callers wait.
	durations := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	m := &Metrics{
		registry: r, known: map[series]bool{},
		decisions: counter("decisions_total",
			"Decisions about requests that are to be charged, by limit. A request under several limits counts once "+
				"for each.",
			"policy", "limit", "outcome"),
		granted: counter("granted_units_total", "Units charged, by limit.", "policy", "limit"),
		calls: counter("calls_total", "Calls of all limits of a policy together, by what was asked and its result.",
			"policy", "operation", "result"),
		errors: counter("errors_total", "Calls that had an error for an answer, by its kind.", "policy", "kind"),
		took: histogram("decision_duration_seconds", "Time that a call took, with the store's, without that of a wait.",
			durations, "policy"),
		storeTook: histogram("store_duration_seconds", "Time that the store itself took for a call.", durations,
			"operation"),
		storeErrors: counter("store_errors_total", "Errors of the store itself, by kind.", "kind"),
		batches: histogram("store_batch_size",
			"Calls that went to a Redis server together. One that went alone counts as 1.",
			[]float64{1, 2, 4, 8, 16, 32, 64, 128}).WithLabelValues(),
		breakerState: gauge("breaker_state",
			"1 for the state that the breaker is in, else 0. A Cluster has a breaker for each part, "+
				"named by the address of its master.", "part", "state"),
		breakerChanges: counter("breaker_changes_total", "Changes of the breaker's state.", "part", "to"),
		reloads: counter("config_reloads_total",
			"Times that the configuration was read, with that of the start.", "result"),
		loaded: gauge("config_last_success_timestamp_seconds",
			"When the configuration that is in force was read, as unix time.").WithLabelValues(),
		stale: gauge("config_stale",
			"1 if the configuration could not be read again, so that the one before is still in "+
				"force.").WithLabelValues(),
		config: gauge("config_info", "1; the label is the hash of the configuration in force, for comparing servers.",
			"hash"),
		requests: counter("http_requests_total", "Requests answered, by listener and class of the status.", "door",
			"status"),
		requestTook: histogram("http_request_duration_seconds",
			"Time from a request's header to the end of its answer.", durations,
			"door"),
		inFlight: gauge("http_requests_in_flight", "Requests that are being answered.", "door"),
		refused: counter("refused_requests_total",
			"Requests that were refused because too many were in flight.").WithLabelValues(),
		grpcCalls:   counter("grpc_calls_total", "Calls of Envoy's rate limit service, by the code of gRPC.", "code"),
		connections: gauge("connections_open", "Connections that clients have open.", "door"),
		connectionsRefused: counter("connections_refused_total",
			"Connections that were closed because too many were open.", "door"),
	}
	gauge("build_info", "1; the labels say which program this is.", "version", "goversion").
		WithLabelValues(version, runtime.Version()).Set(1)
	for _, operation := range operations {
		m.storeTook.WithLabelValues(operation)
	}
	begin(m.storeErrors, errorKinds...)
	begin(m.reloads, "success", "failure")
	begin(m.grpcCalls, "OK")
	m.Configure(nil, true)
	return m
}

// begin makes the series of a counter for the values of its label, so that their first increase is visible.
func begin(counter *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		counter.WithLabelValues(value)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

const (
	// scrapes is the most scrapes at once. Others are refused.
	scrapes = 4
	// scrapeTime is the longest time of a scrape.
	scrapeTime = 10 * time.Second
)

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: scrapes, Timeout: scrapeTime,
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// StoreCall measures a call of the store and counts its error.
func (m *Metrics) StoreCall(_ context.Context, call layers.Call) {
	m.storeTook.WithLabelValues(operationOf(call.Op)).Observe(call.Took.Seconds())
	if call.Err != nil {
		m.storeErrors.WithLabelValues(errorKind(call.Err)).Inc()
	}
}

// Batch counts calls that went to a server together.
func (m *Metrics) Batch(calls int) { m.batches.Observe(float64(calls)) }

// maxParts is the most parts of a store with their own series; the others share one.
const maxParts = 64

// Breaker counts a change of the store's breaker.
func (m *Metrics) Breaker(change limiter.BreakerChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := change.Shard
	if !m.parts[part] && len(m.parts) >= maxParts {
		part = "(others)"
	}
	m.setBreaker(part, change.To)
	m.breakerChanges.WithLabelValues(part, change.To.String()).Inc()
}

// setBreaker sets the state of a part's breaker. The caller holds the lock.
func (m *Metrics) setBreaker(part string, state limiter.BreakerState) {
	m.parts[part] = true
	for _, each := range []limiter.BreakerState{limiter.BreakerClosed, limiter.BreakerOpen, limiter.BreakerHalfOpen} {
		m.breakerState.WithLabelValues(part, each.String()).Set(oneIf(each == state))
		m.breakerChanges.WithLabelValues(part, each.String())
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Loaded counts that a configuration was read and is in force, with that hash, or why another one is not.
func (m *Metrics) Loaded(hash string, err error) {
	if err != nil {
		m.reloads.WithLabelValues("failure").Inc()
		m.stale.Set(1)
		return
	}
	m.reloads.WithLabelValues("success").Inc()
	m.config.Reset()
	m.config.WithLabelValues(hash).Set(1)
	m.loaded.Set(seconds(time.Now()))
	m.stale.Set(0)
}

// WatchOverrides adds a metric that shows whether overrides cannot be read.
func (m *Metrics) WatchOverrides(stale func() bool) {
	m.watch("overrides_stale", "1 if operators' overrides cannot be read, so that new ones do not apply.",
		func() float64 { return oneIf(stale()) })
}

// WatchHeld adds a metric of how many requests are held.
func (m *Metrics) WatchHeld(held func() int64) {
	m.watch("requests_held", "Requests that are held until their turn, as their policy's wait says.",
		func() float64 { return float64(held()) })
}

// WatchCertificate adds metrics about the certificate of TLS listeners: when it expires, and whether its files
// cannot be read again, which stale reports.
func (m *Metrics) WatchCertificate(expires func() time.Time, stale func() string) {
	m.watch("certificate_expiry_timestamp_seconds", "When the certificate that is in force expires, as unix time.",
		func() float64 { return seconds(expires()) })
	m.watch("certificate_stale", "1 if the certificate's files cannot be read again, so that the one before is still "+
		"in force.",
		func() float64 { return oneIf(stale() != "") })
}

func (m *Metrics) watch(name, help string, value func() float64) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: "limitctl_" + name, Help: help}, value)
}
