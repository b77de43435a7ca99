package setup

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/serve/metrics"
)

// metricsFlags are the flags of serve about the metrics.
type metricsFlags struct {
	sampledKeys, topDenied int
}

func (f *metricsFlags) add(flags *pflag.FlagSet) {
	cli.NumberFlag(flags, &f.sampledKeys, "metrics-keys", "", 10_000,
		"once a minute, read `N` keys for the metrics; 0 for never. The default reads none if there are over a million")
	cli.NumberFlag(flags, &f.topDenied, "metrics-top-denied", "", 0, "name the `N` subjects denied most in the metrics, up to 20")
}

func (f *metricsFlags) check() error {
	switch {
	case f.sampledKeys < 0:
		return cli.Usagef("--metrics-keys %d is negative; give 0 for never", f.sampledKeys)
	case f.topDenied < 0 || f.topDenied > metrics.MaxTopDenied:
		return cli.Usagef("--metrics-top-denied %d has to be from 0 to %d", f.topDenied, metrics.MaxTopDenied)
	}
	return nil
}

// measure connects the metrics with connections and certificates.
func (f *serveFrame) measure() {
	f.Events.Connections, f.Events.ConnectionRefused = f.meter.Connections, f.meter.ConnectionRefused
	if f.certificates != nil {
		f.meter.WatchCertificate(f.certificates.Expires, f.certificates.Stale)
	}
}

// sample reads figures of the store in the background, for the metrics.
func (f *serveFrame) sample(store connect.Store) {
	sampling := metrics.Sampling{
		Store: store, Timeout: f.flags.Timeout, Keys: f.flags.sampledKeys, Huge: f.flags.Changed("metrics-keys"),
		TopDenied: f.flags.topDenied,
		OnError:   func(err error) { f.Log.Debug("the store could not be looked at for the metrics", "error", err) },
	}
	f.Background = append(f.Background, func(ctx context.Context) { f.meter.Sample(ctx, sampling) })
}
