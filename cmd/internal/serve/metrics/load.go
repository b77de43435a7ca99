package metrics

import (
	"net/http"
	"slices"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Load has the metrics of a load test, in their own registry. The methods are safe for concurrent use.
type Load struct {
	registry                           *prometheus.Registry
	requests, errors, planned, dropped *prometheus.CounterVec
	latency                            latencies
}

// NewLoad returns metrics that are all zero. version is that of the program.
func NewLoad(version string) *Load {
	of := func(more ...string) []string { return append([]string{"algorithm", "limit"}, more...) }
	l := &Load{
		registry: newRegistry(version),
		requests: prometheus.NewCounterVec(counter("loadtest_requests_total",
			"Requests that were answered or failed after the warm-up, by outcome: allowed and denied are by the limit; local and "+
				"unguarded were answered in its place, because the store was away."), of("outcome")),
		errors: prometheus.NewCounterVec(counter("loadtest_errors_total",
			"Requests that failed, by the text of the error; those with the outcome error."), of("error")),
		planned: prometheus.NewCounterVec(counter("loadtest_planned_total",
			"Requests that were due by the schedule. A closed loop has none."), of()),
		dropped: prometheus.NewCounterVec(counter("loadtest_dropped_total",
			"Requests that were not sent, because they were late by more than the timeout."), of()),
		latency: latencies{desc: prometheus.NewDesc("limitctl_loadtest_latency_seconds",
			"Time from when a request was due to its answer, for those that the limit allowed or denied.", of(), nil)},
	}
	l.registry.MustRegister(l.requests, l.errors, l.planned, l.dropped, &l.latency)
	return l
}

// Handler answers GET /metrics.
func (l *Load) Handler() http.Handler { return handlerOf(l.registry) }

// Add counts a second of a run of these limits.
func (l *Load) Add(algorithm, limit string, s *loadgen.Second) {
	for outcome, n := range map[string]int64{
		"allowed": s.Allowed, "denied": s.Denied, "local": s.Local, "unguarded": s.Unguarded, "error": s.Errors,
	} {
		l.requests.WithLabelValues(algorithm, limit, outcome).Add(float64(n))
	}
	for text, n := range s.ErrorTexts {
		l.errors.WithLabelValues(algorithm, limit, text).Add(float64(n))
	}
	if s.Planned >= 0 {
		l.planned.WithLabelValues(algorithm, limit).Add(float64(s.Planned))
	}
	l.dropped.WithLabelValues(algorithm, limit).Add(float64(s.Dropped))
	l.latency.add([2]string{algorithm, limit}, s.Latency)
}

// latencies are a histogram of each limit. It counts a whole second at once, however many requests that had.
type latencies struct {
	desc *prometheus.Desc

	mu  sync.Mutex
	all []*latency
}

type latency struct {
	labels  [2]string
	count   uint64
	sum     float64            // seconds
	buckets map[float64]uint64 // up to each of durations, cumulated
}

// add counts the latencies of a second, in microseconds.
func (l *latencies) add(labels [2]string, second *hdrhistogram.Histogram) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.all, func(of *latency) bool { return of.labels == labels })
	if i < 0 {
		i = len(l.all)
		l.all = append(l.all, &latency{labels: labels, buckets: map[float64]uint64{}})
	}
	of := l.all[i]
	of.count += uint64(second.TotalCount())
	for _, bar := range second.Distribution() {
		if bar.Count == 0 {
			continue
		}
		of.sum += float64(bar.Count) * float64(bar.From+bar.To) / 2 / 1e6
		for _, bound := range durations {
			if float64(bar.To) <= bound*1e6 {
				of.buckets[bound] += uint64(bar.Count)
			}
		}
	}
}

// Describe implements [prometheus.Collector].
func (l *latencies) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- l.desc }

// Collect implements [prometheus.Collector].
func (l *latencies) Collect(metrics chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.all {
		buckets := map[float64]uint64{}
		for _, bound := range durations {
			buckets[bound] = of.buckets[bound]
		}
		metrics <- prometheus.MustNewConstHistogram(l.desc, of.count, of.sum, buckets, of.labels[:]...)
	}
}
