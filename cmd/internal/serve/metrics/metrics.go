// Package metrics counts the decisions of the server, and the answers in a load test, for Prometheus.
//
// Labels contain only names of the configuration and words of this package, so the number of series is bounded
// whatever clients send. The exception is the most denied keys, which are optional.
package metrics

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are the settings of Metrics.
type Options struct {
	// Version is the version of the program.
	Version string
	// Clock is the clock; the default is time.Now.
	Clock func() time.Time
}

// Metrics are the metrics of the server, in their own registry. The methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	clock    func() time.Time

	decisions decisionMetrics
	store     storeMetrics
	breaker   breakerMetrics
	config    configMetrics
	listeners listenerMetrics
	sample    sampleMetrics

	inForce atomic.Pointer[view]
	mu      sync.Mutex                // for the fields below
	known   map[string]*countedPolicy // by name, including those no longer in force
}

// New returns metrics that are all zero.
func New(options Options) *Metrics {
	m := &Metrics{registry: newRegistry(options.Version), clock: options.Clock, known: map[string]*countedPolicy{}}
	if m.clock == nil {
		m.clock = time.Now
	}
	m.decisions.register(m.registry)
	m.store.register(m.registry)
	m.breaker.register(m.registry)
	m.config.register(m.registry, m.clock())
	m.listeners.register(m.registry)
	m.sample.register(m.registry)
	m.registry.MustRegister(newLimitCollector(m), newSampleCollector(m))
	m.Configure(nil, true)
	return m
}

// newRegistry returns a registry of the metrics about this process.
func newRegistry(version string) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "limitctl_build_info", Help: "1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

const (
	// scrapes is the most scrapes at once. Others are refused.
	scrapes = 4
	// scrapeTime is the longest time of a scrape.
	scrapeTime = 10 * time.Second
)

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	metrics := handlerOf(m.registry)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.forgetRetired()
		metrics.ServeHTTP(w, r)
	})
}

// handlerOf answers with all that a registry has.
func handlerOf(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: scrapes, Timeout: scrapeTime, ErrorHandling: promhttp.ContinueOnError,
	})
}

// counter returns the name and the help of a counter.
func counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: "limitctl_" + name, Help: help}
}

// gauge does the same for a gauge.
func gauge(name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: "limitctl_" + name, Help: help}
}

// durations are the bounds of histograms of time, in seconds: from the time of a memory store to the time that
// callers wait.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
