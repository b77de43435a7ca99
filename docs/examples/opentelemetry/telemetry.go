package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// telemetry has the instruments of a limiter. No attribute contains a key, so clients cannot create series.
type telemetry struct {
	calls    metric.Int64Counter     // by operation, outcome, decided_by
	took     metric.Float64Histogram // by operation
	failures metric.Int64Counter     // by kind
	changes  metric.Int64Counter     // by to
}

func newTelemetry(meter metric.Meter) (*telemetry, error) {
	var t telemetry
	var errs [4]error
	t.calls, errs[0] = meter.Int64Counter("limiter.calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of the limiter, as callers saw them."))
	t.took, errs[1] = meter.Float64Histogram("limiter.store.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that the store itself took for a call."),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5))
	t.failures, errs[2] = meter.Int64Counter("limiter.failures", metric.WithUnit("{error}"),
		metric.WithDescription("Errors of the store in place of which the limiter decided."))
	t.changes, errs[3] = meter.Int64Counter("limiter.breaker.changes", metric.WithUnit("{change}"),
		metric.WithDescription("Changes of the state of a breaker."))
	return &t, errors.Join(errs[:]...)
}

// observer returns the observer for limiter.New.
func (t *telemetry) observer() limiter.Observer {
	return limiter.Observer{
		OnCall: func(ctx context.Context, call limiter.Call) {
			by := []attribute.KeyValue{attribute.String("operation", call.Operation), attribute.String("outcome", call.Outcome)}
			if call.Err == nil {
				by = append(by, attribute.String("decided_by", call.Decisions.DecidedBy().String()))
			}
			t.calls.Add(ctx, 1, metric.WithAttributes(by...))
		},
		OnStoreCall: func(ctx context.Context, call limiter.Call) {
			t.took.Record(ctx, call.Took.Seconds(), metric.WithAttributes(attribute.String("operation", call.Operation)))
		},
		OnFailure: func(err error) {
			kind := "unavailable"
			if errors.Is(err, limiter.ErrOutcomeUnknown) {
				kind = "outcome-unknown"
			}
			t.failures.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", kind)))
		},
		OnBreaker: func(change limiter.BreakerChange) {
			t.changes.Add(context.Background(), 1, metric.WithAttributes(attribute.String("to", change.To.String())))
		},
	}
}

// watch makes gauges of the figures of limits. They are read when metrics are collected.
func watch(meter metric.Meter, limits *limiter.Limiter) error {
	var errs []error
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return g
	}
	breakers := gauge("limiter.breaker.state", "1", "1 for the state that the breaker is in, else 0. In a Cluster each master is a part.")
	leasedKeys := gauge("limiter.leased.keys", "{key}", "Keys of which units are held ahead.")
	leasedUnits := gauge("limiter.leased.units", "{unit}", "Units that are held ahead.")
	localKeys := gauge("limiter.local.keys", "{key}", "Keys of which usage is kept in this process, because the store was away.")
	denials := gauge("limiter.remembered.denials", "{denial}", "Denials that are repeated without asking the store.")
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := limits.Stats()
		for part, now := range stats.Breakers {
			for _, state := range []limiter.BreakerState{limiter.BreakerClosed, limiter.BreakerOpen, limiter.BreakerHalfOpen} {
				value := int64(0)
				if state == now {
					value = 1
				}
				o.ObserveInt64(breakers, value, metric.WithAttributes(attribute.String("part", part),
					attribute.String("state", state.String())))
			}
		}
		o.ObserveInt64(leasedKeys, stats.LeasedKeys)
		o.ObserveInt64(leasedUnits, stats.LeasedUnits)
		o.ObserveInt64(localKeys, stats.LocalKeys)
		o.ObserveInt64(denials, stats.Denials)
		return nil
	}, breakers, leasedKeys, leasedUnits, localKeys, denials)
	return err
}
