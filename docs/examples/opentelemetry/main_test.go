package main

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
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

// collected returns the values by name and attributes, for a histogram the count.
func collected(t *testing.T, reader sdk.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(by attribute.Set, value int64) {
				values[strings.TrimSpace(m.Name+" "+by.Encoded(attribute.DefaultEncoder()))] = value
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, int64(p.Count))
				}
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
		}
	}
	return values
}

// All metrics, first with a store that is there, and then with one that is away.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no recovery check comes, however slow the test is
		reader := sdk.NewManualReader()
		backend := &sick{Store: memorystore.New()}
		limits, err := newLimiter(backend, sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"))
		if err != nil {
			t.Fatal(err)
		}
		defer limits.Close()
		take := func(user string, times int) {
			t.Helper()
			for range times {
				if _, err := limits.Take(t.Context(), limiter.Per("day", 4, 24*time.Hour).For("user", user)); err != nil {
					t.Fatal(err)
				}
			}
		}
		take("ada", 6)
		backend.err = limiter.ErrUnavailable
		take("bob", 5) // a quarter of four, and then the breaker opens
		backend.err = limiter.ErrOutcomeUnknown
		if _, err := limits.Refund(t.Context(), limiter.Per("day", 4, 24*time.Hour).For("user", "bob")); !limiter.IsAway(err) {
			t.Fatal(err)
		}
		want := map[string]int64{
			"limiter.breaker.changes to=open":                                      1,
			"limiter.breaker.state part=,state=closed":                             0,
			"limiter.breaker.state part=,state=half-open":                          0,
			"limiter.breaker.state part=,state=open":                               1,
			"limiter.calls decided_by=denial-memory,operation=take,outcome=denied": 1,
			"limiter.calls decided_by=local,operation=take,outcome=allowed":        1,
			"limiter.calls decided_by=local,operation=take,outcome=denied":         4,
			"limiter.calls decided_by=store,operation=take,outcome=allowed":        4,
			"limiter.calls decided_by=store,operation=take,outcome=denied":         1,
			"limiter.calls operation=refund,outcome=unavailable":                   1,
			"limiter.failures kind=unavailable":                                    5,
			"limiter.leased.keys":                                                  0,
			"limiter.leased.units":                                                 0,
			"limiter.local.keys":                                                   1,
			"limiter.remembered.denials":                                           1,
			"limiter.store.call.duration operation=take":                           10,
		}
		if got := collected(t, reader); !maps.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	})
}
