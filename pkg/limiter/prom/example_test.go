package prom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/prom"
)

// A service that serves its metrics. Its own observer gets the breaker's changes, too.
func Example() {
	metrics := prom.New()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	observer := metrics.Observer()
	count := observer.OnBreaker
	observer.OnBreaker = func(change limiter.BreakerChange) {
		count(change)
		log.Print("breaker ", change.To)
	}
	limits, err := limiter.New(memorystore.New(), observer, limiter.Breaker{}, limiter.FailLocal(0.25))
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	metrics.Watch(limits)

	perHour := limiter.Per("api/hour", 2, time.Hour)
	for range 3 {
		if _, err := limits.Take(context.Background(), perHour.For("user", "42")); err != nil {
			log.Fatal(err)
		}
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(
		answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "limiter_calls_total") || strings.HasPrefix(line, "limiter_breaker_state") {
			fmt.Print(line)
		}
	}
	// Output:
	// limiter_breaker_state{part="",state="closed"} 1
	// limiter_breaker_state{part="",state="half-open"} 0
	// limiter_breaker_state{part="",state="open"} 0
	// limiter_calls_total{decided_by="store",operation="take",outcome="allowed"} 2
	// limiter_calls_total{decided_by="store",operation="take",outcome="denied"} 1
}
