package cmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/cmd/internal/serve/api"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/metrics"
)

type serveOptions struct {
	*globalOptions
	listen string
	admin  string
	drain  time.Duration
}

func newServeCmd(global *globalOptions) *cobra.Command {
	o := &serveOptions{globalOptions: global}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve limits to programs over HTTP",
		Long: `Serve answers requests about limits: as JSON over HTTP for any program.

POST /v1/check and /v1/consume take {"key", "limits", "cost"}, or
{"policy", "attributes", "cost"}. The answer is that of the command, with the
status 200 if it is allowed and 429 if it is denied.`,
		Example: `  limitctl serve
  curl -d '{"key":"user:42","limits":["10/1m"]}' localhost:8080/v1/consume`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8080", "answer requests at `ADDRESS`")
	cmd.Flags().StringVar(&o.admin, "admin", "127.0.0.1:9090", "answer operators at `ADDRESS`: /metrics, /healthz, /readyz")
	cmd.Flags().DurationVar(&o.drain, "drain", 5*time.Second, "after SIGTERM, let requests end for at most `DURATION`")
	return cmd
}

func runServe(ctx context.Context, o *serveOptions) error {
	c, err := o.config()
	if err != nil {
		return err
	}
	counted := metrics.New(metrics.Options{Version: o.env.Version})
	store, _, err := o.openWatched(counted.Batch)
	if err != nil {
		return err
	}
	defer store.Close()
	settings := &engine.Settings{Policies: c.Policies, Breaker: c.Breaker, HTTP: c.HTTP, Envoy: c.Envoy}
	e := engine.New(store, settings, o.observed(engine.Options{Timeout: o.timeout}, counted))
	defer e.Close()
	return serve.Run(ctx, serve.Options{
		Doors: []serve.Door{{Name: "http", Address: o.listen, Handler: counted.Door("http", api.Handler(e))},
			{Name: "admin", Address: o.admin, Handler: counted.Handler()}},
		Drain: o.drain,
		Log:   slog.New(slog.NewTextHandler(o.env.Err, nil)),
	})
}
