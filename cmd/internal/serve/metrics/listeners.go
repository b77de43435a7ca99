package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// listenerMetrics count requests by listener.
type listenerMetrics struct {
	requests *prometheus.CounterVec // by listener, status
	took     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	refused  prometheus.Counter
	calls    *prometheus.CounterVec // of gRPC, by code

	connections        *prometheus.GaugeVec
	connectionsRefused *prometheus.CounterVec
}

// statusClasses are by the first digit of a status. The first is for those without one.
var statusClasses = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (l *listenerMetrics) register(r prometheus.Registerer) {
	l.requests = prometheus.NewCounterVec(counter("http_requests_total",
		"Requests answered, by listener and class of the status."), []string{"door", "status"})
	l.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "limitctl_http_request_duration_seconds", Help: "Time from a request's header to the end of its answer.", Buckets: durations,
	}, []string{"door"})
	l.inFlight = prometheus.NewGaugeVec(gauge("http_requests_in_flight", "Requests that are being answered."), []string{"door"})
	l.refused = prometheus.NewCounter(counter("refused_requests_total",
		"Requests that were refused because too many were in flight."))
	l.calls = prometheus.NewCounterVec(counter("grpc_calls_total",
		"Calls of Envoy's rate limit service, by the code of gRPC."), []string{"code"})
	l.calls.WithLabelValues("OK")
	l.connections = prometheus.NewGaugeVec(gauge("connections_open", "Connections that clients have open."), []string{"door"})
	l.connectionsRefused = prometheus.NewCounterVec(counter("connections_refused_total",
		"Connections that were closed because too many were open."), []string{"door"})
	r.MustRegister(l.requests, l.took, l.inFlight, l.refused, l.calls, l.connections, l.connectionsRefused)
}

// Refused counts a request that is refused because too many are in flight.
func (m *Metrics) Refused() { m.listeners.refused.Inc() }

// CallEnded counts a gRPC call that ended with the code of that name.
func (m *Metrics) CallEnded(code string) { m.listeners.calls.WithLabelValues(code).Inc() }

// Connections counts connections of a listener that were opened, or closed if change is below 0.
func (m *Metrics) Connections(listener string, change int) {
	m.listeners.connections.WithLabelValues(listener).Add(float64(change))
}

// ConnectionRefused counts a connection that was closed because too many are open.
func (m *Metrics) ConnectionRefused(listener string) {
	m.listeners.connectionsRefused.WithLabelValues(listener).Inc()
}

// Listener wraps the handler of a listener, to count its requests. name is one of the server's own words. answered, if not nil,
// gets each request with the status of its answer.
func (m *Metrics) Listener(name string, next http.Handler, answered func(r *http.Request, status int, took time.Duration)) http.Handler {
	listener := &countedListener{next: next, answered: answered, took: m.listeners.took.WithLabelValues(name),
		inFlight: m.listeners.inFlight.WithLabelValues(name)}
	for i, class := range statusClasses {
		listener.statuses[i] = m.listeners.requests.WithLabelValues(name, class)
	}
	m.listeners.connections.WithLabelValues(name)
	m.listeners.connectionsRefused.WithLabelValues(name)
	return listener
}

type countedListener struct {
	next     http.Handler
	answered func(r *http.Request, status int, took time.Duration)
	statuses [len(statusClasses)]prometheus.Counter
	took     prometheus.Observer
	inFlight prometheus.Gauge
}

// ServeHTTP implements [http.Handler].
func (l *countedListener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	l.inFlight.Inc()
	writer := &statusWriter{ResponseWriter: w}
	panicked := true
	defer func() {
		status := writer.status
		switch {
		case panicked && status == 0:
			status = http.StatusInternalServerError
		case status == 0:
			status = http.StatusOK
		}
		class := status / 100
		if class < 1 || class >= len(l.statuses) {
			class = 0
		}
		took := time.Since(begun)
		l.statuses[class].Inc()
		l.took.Observe(took.Seconds())
		if l.answered != nil {
			l.answered(r, status, took)
		}
		l.inFlight.Dec()
	}()
	l.next.ServeHTTP(writer, r)
	panicked = false
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until the header is written
}

// Unwrap is for [http.ResponseController].
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	if w.status < 200 { // informational statuses precede the final one
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *statusWriter) Write(text []byte) (int, error) {
	if w.status < 200 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(text)
}

// Flush implements [http.Flusher].
func (w *statusWriter) Flush() { http.NewResponseController(w.ResponseWriter).Flush() }
