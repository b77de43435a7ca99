package prom_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/prom"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sick is a store that fails while err is set.
type sick struct {
	limiter.Store
	err error
}

func (s *sick) Decide(ctx context.Context, op store.Op, requests []store.Request, decisions []store.Decision) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Decide(ctx, op, requests, decisions)
}

// watched returns a limiter of backend, and its metrics.
func watched(t *testing.T, backend limiter.Store, options ...limiter.Option) (*limiter.Limiter, *prom.Metrics) {
	t.Helper()
	metrics := prom.New()
	limits, err := limiter.New(backend, append(options, metrics.Observer())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limits.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics.Watch(limits)
	return limits, metrics
}

func take(t *testing.T, limits *limiter.Limiter, r limiter.Request) {
	t.Helper()
	if _, err := limits.Take(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// want compares all series of some metrics with lines of the text format.
func want(t *testing.T, metrics prometheus.Collector, series string, names ...string) {
	t.Helper()
	if err := testutil.CollectAndCompare(metrics, strings.NewReader(series), names...); err != nil {
		t.Error(err)
	}
}

const calls = `
# HELP limiter_calls_total Calls of the limiter, as callers saw them.
# TYPE limiter_calls_total counter
`

func TestCalls(t *testing.T) {
	backend := &sick{Store: memorystore.New()}
	limits, metrics := watched(t, backend)
	r := limiter.Per("day", 1, 24*time.Hour).For("user", "secret")
	take(t, limits, r)
	take(t, limits, r)
	if _, err := limits.Peek(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	backend.err = limiter.ErrUnavailable
	if _, err := limits.Refund(t.Context(), r); !limiter.IsAway(err) {
		t.Fatal(err)
	}
	want(t, metrics, calls+`
limiter_calls_total{decided_by="",operation="refund",outcome="unavailable"} 1
limiter_calls_total{decided_by="store",operation="peek",outcome="denied"} 1
limiter_calls_total{decided_by="store",operation="take",outcome="allowed"} 1
limiter_calls_total{decided_by="store",operation="take",outcome="denied"} 1
`, "limiter_calls_total")
	if n := testutil.CollectAndCount(metrics, "limiter_store_call_duration_seconds"); n != 3 {
		t.Errorf("%d operations of the store are timed", n)
	}
	problems, err := testutil.CollectAndLint(metrics)
	if len(problems) > 0 || err != nil {
		t.Errorf("%v, %v", problems, err)
	}
}

// A store that goes away and comes back, with a breaker and a shadow.
func TestAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &sick{Store: memorystore.New()}
		limits, metrics := watched(t, backend, limiter.Breaker{Failures: 2}, limiter.FailLocal(0.5))
		day := limiter.Per("day", 2, 24*time.Hour)
		seen := func(closed, open, failed, unknown, opened, shut int) {
			t.Helper()
			want(t, metrics, fmt.Sprintf(`
# HELP limiter_breaker_changes_total Changes of the state of a breaker.
# TYPE limiter_breaker_changes_total counter
limiter_breaker_changes_total{to="closed"} %d
limiter_breaker_changes_total{to="half-open"} %[1]d
limiter_breaker_changes_total{to="open"} %d
# HELP limiter_breaker_state 1 for the state that the breaker is in, else 0. A Cluster has a breaker for each part, which is a master.
# TYPE limiter_breaker_state gauge
limiter_breaker_state{part="",state="closed"} %d
limiter_breaker_state{part="",state="half-open"} 0
limiter_breaker_state{part="",state="open"} %d
# HELP limiter_failures_total Errors of the store in place of which the limiter decided.
# TYPE limiter_failures_total counter
limiter_failures_total{kind="outcome-unknown"} %d
limiter_failures_total{kind="unavailable"} %d
`, shut, opened, closed, open, unknown, failed),
				"limiter_breaker_changes_total", "limiter_breaker_state", "limiter_failures_total")
		}
		seen(1, 0, 0, 0, 0, 0)
		backend.err = limiter.ErrUnavailable
		take(t, limits, day.For("a"))
		backend.err = limiter.ErrOutcomeUnknown
		take(t, limits, day.For("b"))
		take(t, limits, day.For("b"))
		seen(0, 1, 2, 1, 1, 0) // the third is refused by the breaker
		backend.err = nil
		time.Sleep(time.Second)
		take(t, limits, day.For("c"))
		synctest.Wait() // for the recovery check
		take(t, limits, day.For("d"))
		seen(1, 0, 3, 1, 1, 1)
		want(t, metrics, calls+`
limiter_calls_total{decided_by="local",operation="take",outcome="allowed"} 3
limiter_calls_total{decided_by="local",operation="take",outcome="denied"} 1
limiter_calls_total{decided_by="store",operation="take",outcome="allowed"} 1
`, "limiter_calls_total")
	})
}

// Clients cannot create series.
func TestClientsCannotMakeSeries(t *testing.T) {
	limits, metrics := watched(t, memorystore.New(), limiter.Breaker{}, limiter.Leases{}, limiter.DenialMemory{},
		limiter.FailClosed())
	count := func() int {
		for n := range 50 {
			take(t, limits, limiter.Per(fmt.Sprint("limit", n), 1, 24*time.Hour).For(fmt.Sprint("user", n)))
		}
		return testutil.CollectAndCount(metrics)
	}
	if once, twice := count(), count(); twice != once+1 { // those that are denied now
		t.Errorf("%d series, then %d", once, twice)
	}
}
