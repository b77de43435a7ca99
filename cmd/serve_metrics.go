package cmd

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/metrics"
	"github.com/limitctl/limitctl/internal/panics"
)

// metricsFlags are the flags of serve about what the metrics tell.
type metricsFlags struct {
	sampledKeys, topDenied int
}

func (f *metricsFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.sampledKeys, "metrics-keys", 10_000,
		"once a minute, look at `N` keys for the metrics; 0 for never. Unless given, never if there are over a million")
	flags.IntVar(&f.topDenied, "metrics-top-denied", 0, "name the `N` subjects denied most in the metrics, at most 20")
}

func (f *metricsFlags) check() error {
	switch {
	case f.sampledKeys < 0:
		return usagef("--metrics-keys %d is negative; give 0 for never", f.sampledKeys)
	case f.topDenied < 0 || f.topDenied > metrics.MaxTopDenied:
		return usagef("--metrics-top-denied %d has to be from 0 to %d", f.topDenied, metrics.MaxTopDenied)
	}
	return nil
}

// observed are an engine's options, with metrics told of what it decides.
func observed(options engine.Options, counted *metrics.Metrics) engine.Options {
	options.OnBreaker, options.StoreObserver = counted.Breaker, counted.StoreObserver()
	options.OnDecision, options.OnReplace = counted.Decided, counted.Configure
	return options
}

// counted lets metrics count what passes the doors that are added from now on.
func (f *serveFrame) counted(counted *metrics.Metrics) {
	f.count = counted.Door
	f.Events.Connections, f.Events.ConnectionRefused = counted.Connections, counted.ConnectionRefused
}

// countDoor wraps what a door answers with, if something counts.
func (f *serveFrame) countDoor(name string, handler http.Handler) http.Handler {
	if f.count == nil || handler == nil {
		return handler
	}
	return f.count(name, handler)
}

// sample looks at the store in the background, for the metrics, until stop is called.
func (o *serveOptions) sample(ctx context.Context, counted *metrics.Metrics, store connect.Store, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	sampling := metrics.Sampling{
		Store: store, Timeout: o.timeout, Keys: o.sampledKeys, Huge: o.changed("metrics-keys"), TopDenied: o.topDenied,
		OnError: func(err error) {
			log.Debug("the store could not be looked at for the metrics", "error", o.describe(err))
		},
	}
	panics.Go(func() error { counted.Sample(ctx, sampling); return nil }, func(err error) {
		if err != nil {
			log.Error("the metrics tell no more of keys", "error", o.describe(err))
		}
		close(ended)
	})
	return func() {
		cancel()
		<-ended
	}
}
