// Package metrics counts what the server decides, for Prometheus.
//
// Labels hold names of the configuration and words of this package only, so the number of
// series is bounded whatever clients send. The exception are the keys that are denied most,
// which are there if somebody asks for them.
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

// Options are what metrics know from the start.
type Options struct {
	// Version is the program's.
	Version string
	// Clock is the time; time.Now unless said.
	Clock func() time.Time
}

// Metrics are the server's. Each Metrics has a registry of its own. Its methods are safe for
// concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	clock    func() time.Time

	decisions decisionMetrics
	store     storeMetrics
	breaker   breakerMetrics
	config    configMetrics
	doors     doorMetrics
	sample    sampleMetrics

	inForce atomic.Pointer[view]
	mu      sync.Mutex                // for the fields below
	known   map[string]*countedPolicy // by name, also those that are in force no more
}

// New returns metrics that have counted nothing.
func New(options Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), clock: options.Clock, known: map[string]*countedPolicy{}}
	if m.clock == nil {
		m.clock = time.Now
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "limitctl_build_info", Help: "1; the labels say which program this is.",
		ConstLabels: prometheus.Labels{"version": options.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.decisions.register(m.registry)
	m.store.register(m.registry)
	m.breaker.register(m.registry)
	m.config.register(m.registry, m.clock())
	m.doors.register(m.registry)
	m.sample.register(m.registry)
	m.registry.MustRegister(newLimitCollector(m), newSampleCollector(m))
	m.Configure(nil, true)
	return m
}

const (
	// scrapes is how many requests for the metrics are answered at once. Others are refused.
	scrapes = 4
	// scrapeTime is how long an answer may take.
	scrapeTime = 10 * time.Second
)

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	metrics := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: scrapes, Timeout: scrapeTime, ErrorHandling: promhttp.ContinueOnError,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.forgetRetired()
		metrics.ServeHTTP(w, r)
	})
}

// counter returns what a counter is called and means.
func counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: "limitctl_" + name, Help: help}
}

// gauge is counter for a gauge.
func gauge(name, help string) prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: "limitctl_" + name, Help: help}
}

// durations are the bounds of histograms of time, in seconds: from what memory takes to what
// callers wait for.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
