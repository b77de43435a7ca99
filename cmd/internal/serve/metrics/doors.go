package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// doorMetrics count requests by listener.
type doorMetrics struct {
	requests *prometheus.CounterVec // by door, status
	took     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	refused  prometheus.Counter
	calls    [codes]prometheus.Counter // of gRPC

	connections        *prometheus.GaugeVec
	connectionsRefused *prometheus.CounterVec
}

// statusClasses are by the first digit of a status. The first is for those without one.
var statusClasses = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (d *doorMetrics) register(r prometheus.Registerer) {
	d.requests = prometheus.NewCounterVec(counter("http_requests_total",
		"Requests answered, by the door they came through and the class of the status."), []string{"door", "status"})
	d.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "limitctl_http_request_duration_seconds", Help: "Time from a request's header to the end of its answer.", Buckets: durations,
	}, []string{"door"})
	d.inFlight = prometheus.NewGaugeVec(gauge("http_requests_in_flight", "Requests that are being answered."), []string{"door"})
	d.refused = prometheus.NewCounter(counter("refused_requests_total",
		"Requests that were refused because too many were in flight."))
	calls := prometheus.NewCounterVec(counter("grpc_calls_total",
		"Calls of Envoy's rate limit service, by the code of gRPC."), []string{"code"})
	for i, code := range codeWords {
		d.calls[i] = calls.WithLabelValues(code)
	}
	d.connections = prometheus.NewGaugeVec(gauge("connections_open", "Connections that clients have open."), []string{"door"})
	d.connectionsRefused = prometheus.NewCounterVec(counter("connections_refused_total",
		"Connections that were closed because too many were open."), []string{"door"})
	r.MustRegister(d.requests, d.took, d.inFlight, d.refused, calls, d.connections, d.connectionsRefused)
}

// Refused counts a request that is refused because too many are in flight.
func (m *Metrics) Refused() { m.doors.refused.Inc() }

// codes is the number of codes in gRPC.
const codes = 17

// codeWords are the codes of gRPC in its documents.
var codeWords = [codes]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// CallEnded counts a gRPC call with that code. An unknown code counts as UNKNOWN, which is 2.
func (m *Metrics) CallEnded(code uint8) {
	if code >= codes {
		code = 2
	}
	m.doors.calls[code].Inc()
}

// Connections counts connections of a listener that were opened, or closed if change is below 0.
func (m *Metrics) Connections(door string, change int) {
	m.doors.connections.WithLabelValues(door).Add(float64(change))
}

// ConnectionRefused counts a connection that was closed because too many are open.
func (m *Metrics) ConnectionRefused(door string) {
	m.doors.connectionsRefused.WithLabelValues(door).Inc()
}

// Door wraps the handler of a listener, to count its requests. name is one of the server's own words.
func (m *Metrics) Door(name string, next http.Handler) http.Handler {
	door := &countedDoor{next: next, took: m.doors.took.WithLabelValues(name), inFlight: m.doors.inFlight.WithLabelValues(name)}
	for i, class := range statusClasses {
		door.statuses[i] = m.doors.requests.WithLabelValues(name, class)
	}
	m.doors.connections.WithLabelValues(name)
	m.doors.connectionsRefused.WithLabelValues(name)
	return door
}

type countedDoor struct {
	next     http.Handler
	statuses [len(statusClasses)]prometheus.Counter
	took     prometheus.Observer
	inFlight prometheus.Gauge
}

// ServeHTTP implements [http.Handler].
func (d *countedDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	d.inFlight.Inc()
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
		if class < 1 || class >= len(d.statuses) {
			class = 0
		}
		d.statuses[class].Inc()
		d.took.Observe(time.Since(begun).Seconds())
		d.inFlight.Dec()
	}()
	d.next.ServeHTTP(writer, r)
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
