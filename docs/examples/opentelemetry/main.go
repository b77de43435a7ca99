// Opentelemetry takes from a limit a few times, and writes OpenTelemetry's metrics to the standard output. A real
// service uses an OTLP exporter instead.
//
//	go run .
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, output io.Writer) error {
	exporter, err := stdoutmetric.New(stdoutmetric.WithWriter(output), stdoutmetric.WithPrettyPrint())
	if err != nil {
		return err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(sdk.NewPeriodicReader(exporter)))
	limits, err := newLimiter(memorystore.New(), provider.Meter("github.com/limitctl/limitctl"))
	if err != nil {
		return errors.Join(err, provider.Shutdown(ctx))
	}
	perHour := limiter.Per("api/hour", 10, time.Hour)
	for range 12 {
		if _, err := limits.Take(ctx, perHour.For("user", "42")); err != nil {
			log.Print("nothing was decided: ", err)
		}
	}
	return errors.Join(provider.Shutdown(ctx), limits.Close()) // the former exports the last metrics
}

// newLimiter returns a limiter of store that meter measures.
func newLimiter(store limiter.Store, meter metric.Meter) (*limiter.Limiter, error) {
	t, err := newTelemetry(meter)
	if err != nil {
		return nil, err
	}
	limits, err := limiter.New(store, t.observer(), limiter.Breaker{}, limiter.FailLocal(0.25), limiter.DenialMemory{})
	if err != nil {
		return nil, err
	}
	if err := watch(meter, limits); err != nil {
		return nil, errors.Join(err, limits.Close())
	}
	return limits, nil
}
