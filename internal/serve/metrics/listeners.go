package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// statusClasses are by the first digit of a status. The first is for those without one.
var statusClasses = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Refused counts a request that is refused because too many are in flight.
func (m *Metrics) Refused() { m.refused.Inc() }

// CallEnded counts a gRPC call that ended with the code of that name.
func (m *Metrics) CallEnded(code string) { m.grpcCalls.WithLabelValues(code).Inc() }

// Connections counts connections of a listener that were opened, or closed if change is below 0.
func (m *Metrics) Connections(listener string, change int) {
	m.connections.WithLabelValues(listener).Add(float64(change))
}

// ConnectionRefused counts a connection that was closed because too many are open.
func (m *Metrics) ConnectionRefused(listener string) {
	m.connectionsRefused.WithLabelValues(listener).Inc()
}

// Listener wraps the handler of a listener, to count its requests. name is one of the server's own words. begin, if not
// nil, gets each request, and what it returns gets the status of its answer.
func (m *Metrics) Listener(name string, next http.Handler, begin func(*http.Request) func(
	status int, took time.Duration)) http.Handler {
	var requests [len(statusClasses)]prometheus.Counter
	for i, class := range statusClasses {
		requests[i] = m.requests.WithLabelValues(name, class)
	}
	m.connections.WithLabelValues(name)
	m.connectionsRefused.WithLabelValues(name)
	took, inFlight := m.requestTook.WithLabelValues(name), m.inFlight.WithLabelValues(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		inFlight.Inc()
		answered := func(int, time.Duration) {}
		if begin != nil {
			answered = begin(r)
		}
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
			if class >= len(statusClasses) {
				class = 0
			}
			lasted := time.Since(begun)
			requests[class].Inc()
			took.Observe(lasted.Seconds())
			answered(status, lasted)
			inFlight.Dec()
		}()
		next.ServeHTTP(writer, r)
		panicked = false
	})
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
