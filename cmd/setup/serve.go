package setup

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/api"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/envoy"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	listen, admin, grpc               string
	grpcAge                           time.Duration
	drain, drainDelay                 time.Duration
	certificate, key, clientAuthority string
	tokenFile                         string
	maxInFlight, maxConnections       int
	logFormat, logLevel               string
	logRequests                       bool
	grpcTokens, grpcReflection        bool
	fallback                          string // for a start before anything was published
	checkOnly                         bool   // do not serve
}

type serveOptions struct {
	*cli.Globals
	serveFlags
}

// NewServeCmd makes limitctl serve.
func NewServeCmd(global *cli.Globals) *cobra.Command {
	o := &serveOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve limits to programs over HTTP and gRPC",
		Long: `Serve answers requests about limits, for programs in any language (/v1), for
proxies (/v1/auth/POLICY), and for Envoy (--grpc). Configurations to paste are
in docs/serve.md, and the fields of /v1 in docs/serve-api.md. --admin has GET
/metrics, /healthz and /readyz for operators, without TLS and access token.

An address is HOST:PORT or unix:PATH; 127.0.0.1 is this machine only, and
0.0.0.0 is every network. With port 0 the system chooses one, which the log and
-o json name.

With --token-file or $LIMITCTL_SERVE_TOKEN, requests to /v1 need the header
"Authorization: Bearer TOKEN", or X-Limitctl-Authorization. The file has a token
on each line, and fields can follow it: name=NAME for the log, and
scopes=SCOPE,SCOPE of decide (check, consume, auth), refund (refund, settle),
read (check, subject) and reset. Without scopes it may do all but reset.

Certificates and tokens are read again when their files change, and on SIGHUP;
what cannot be used leaves the old ones in force. --check-config reads all files
and flags, connects to nothing, and exits with 0 or 2.

On SIGTERM or Ctrl-C it takes no new connections and answers the requests under
way. It exits with 0 if all were answered within --drain, else with 5. A second
signal ends it at once.`,
		Example: `  limitctl serve
  limitctl serve --store redis://127.0.0.1:6379 --listen 0.0.0.0:8080
  limitctl serve --config limitctl.yaml --check-config
  limitctl serve --store redis://127.0.0.1:6379 --config store:
  limitctl serve --listen unix:http.sock --admin off --log-format json
  curl -d '{"key":"user:42","limits":["10/1m"]}' localhost:8080/v1/consume`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), o) },
	}
	o.addFlags(cmd)
	cli.GroupFlags(cmd, "Who may ask", o.addAccessFlags)
	cli.GroupFlags(cmd, "Log", o.addLogFlags)
	return cmd
}

func (f *serveFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "answer requests at `ADDRESS`; off for nowhere")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:9090", "answer operators at `ADDRESS`; off for nowhere")
	flags.StringVar(&f.grpc, "grpc", "", "answer Envoy's rate limit service, which is gRPC, at `ADDRESS`")
	cli.DurationFlag(flags, &f.grpcAge, "grpc-max-age", "", 0,
		"end each connection of --grpc after about `DURATION`, so that clients spread over new servers; 0 for never")
	flags.BoolVar(&f.grpcReflection, "grpc-reflection", false,
		"tell clients of --grpc its services and messages, for tools such as grpcurl")
	cli.DurationFlag(flags, &f.drain, "drain", "", 5*time.Second,
		"after SIGTERM, end within `DURATION`, even if requests are under way")
	cli.DurationFlag(flags, &f.drainDelay, "drain-delay", "", 0,
		"first accept new connections for `DURATION`, until balancers send no more")
	cli.NumberFlag(flags, &f.maxInFlight, "max-in-flight", "", 1024,
		"answer at most `N` requests at a time, and others with 503")
	cli.NumberFlag(flags, &f.maxConnections, "max-connections", "", 10_000,
		"keep at most `N` connections open; the one idle longest makes room")
	flags.StringVar(&f.fallback, "config-fallback", "",
		"with --config store:, begin with `FILE` if nothing was published and none was kept")
	flags.BoolVar(&f.checkOnly, "check-config", false,
		"find mistakes in flags and files, serve nothing, and connect to nothing")
}

func (f *serveFlags) addAccessFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.certificate, "tls-cert", "", "serve with TLS by the certificates in `FILE`")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the key of the certificate")
	flags.StringVar(&f.clientAuthority, "tls-client-ca", "",
		"require a certificate of each client, signed by an authority in `FILE`")
	flags.StringVar(&f.tokenFile, "token-file", "", "require an access token from `FILE` with each request to /v1")
	flags.BoolVar(&f.grpcTokens, "grpc-tokens", false,
		"require an access token with each call of --grpc, too, in the metadata authorization")
}

func (f *serveFlags) addLogFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.logFormat, "log-format", "text", "write the log as `FORMAT`: text, json")
	flags.StringVar(&f.logLevel, "log-level", "info", "log from `LEVEL` up: debug, info, warn, error")
	flags.BoolVar(&f.logRequests, "log-requests", false,
		"log each request, with the name of its access token and without its query")
	cmd.RegisterFlagCompletionFunc("log-format",
		cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"},
		cobra.ShellCompDirectiveNoFileComp))
}

func runServe(ctx context.Context, o *serveOptions) error {
	// Mistakes in flags and files are found before anything is opened.
	frame, err := o.frame()
	if err != nil {
		return err
	}
	c, err := o.Config()
	if err != nil {
		return err
	}
	fallback, err := o.checkPublished()
	if err != nil {
		return err
	}
	chosen, err := o.Settings()
	if err != nil {
		return err
	}
	if chosen.Context != nil && chosen.Context.ReadOnly {
		return cli.Usagef("context %q is read-only, and serve takes units; choose another", chosen.Context.Name)
	}

	// The engine, its observers, and what runs beside it.
	store, where, err := o.OpenWatched(frame.meter.Batch)
	if err != nil {
		return err
	}
	defer store.Close()
	if o.checkOnly { // opening does not connect
		return frame.checked(c, store, where)
	}
	reloader, err := frame.reloader(ctx, c, fallback, store)
	if err != nil {
		return err
	}
	defer reloader.Close(context.WithoutCancel(ctx))
	c = reloader.Config
	defer serve.SpareHeap()()
	log := frame.events()
	frame.meter.WatchOverrides(log.OverridesStale)
	e := engine.New(store, &engine.Settings{File: c.File}, frame.engineOptions(ctx, log))
	defer e.Close()
	reloader.Apply = func(c *config.Config) { e.Replace(&engine.Settings{File: c.File}) }
	frame.begin(c, where)

	// The listeners. One gate bounds the requests of all clients, and one those that are held.
	gate, held := serve.NewGate(o.maxInFlight, frame.meter.Refused), serve.NewGate(o.maxInFlight, func() {})
	frame.meter.WatchHeld(held.Inside)
	answers := frame.guard(api.Handler(e, api.Options{
		Describe: o.describe, Keys: store, Timeout: o.Timeout, Gate: gate, Held: held, Resets: frame.tokens != nil,
	}))
	frame.programs(answers)
	frame.operators()
	frame.envoy(e, envoy.Options{Gate: gate, Describe: o.describe, Age: o.grpcAge, Reflection: o.grpcReflection})
	return serve.Run(ctx, &frame.Options)
}

// logger returns the log of the server.
func (o *serveOptions) logger() (*slog.Logger, error) {
	var options slog.HandlerOptions
	level := new(slog.Level)
	if level.UnmarshalText([]byte(o.logLevel)) != nil {
		return nil, cli.Usagef("--log-level %q is not known; give debug, info, warn or error", o.logLevel)
	}
	options.Level = level
	options.ReplaceAttr = o.withoutSecretsIn
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(o.Env.Err, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(o.Env.Err, &options)), nil
	}
	return nil, cli.Usagef("--log-format %q is not known; give text or json", o.logFormat)
}

// describe writes an error of a store for clients and the log: one line without secrets.
func (o *serveOptions) describe(err error) string { return o.WithoutSecrets(cli.Message(err)) }
