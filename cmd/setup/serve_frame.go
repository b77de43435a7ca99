package setup

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/api"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/envoy"
	"github.com/limitctl/limitctl/internal/serve/metrics"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// exchangeTime is how long a client may take to send a request and to read its answer, besides the time of the
	// store.
	exchangeTime = 20 * time.Second
	// leastAge is the least --grpc-max-age: connections that end sooner cost more than they carry.
	leastAge = 10 * time.Second
	// operatorTime is how long a request of an operator may take. By default a scrape gives up after ten seconds.
	operatorTime = time.Minute
	// operatorConnections and operatorRequests bound the concurrent requests of operators.
	operatorConnections, operatorRequests = 256, 32
)

// tokenVariable is the environment variable with the tokens, if they are not in a file. Everybody on the machine could
// see a token on the command line.
const tokenVariable = "LIMITCTL_SERVE_TOKEN"

// serveFrame is the listeners of the server from the flags, before there are handlers.
type serveFrame struct {
	serve.Options
	listen, admin *serve.Address // nil for none
	grpc          *serve.Address // nil for none
	flags         *serveOptions
	meter         *metrics.Metrics
	certificates  *serve.Certificates
	tokens        *serve.AccessTokens
}

// frame reads the flags, and the files that they name.
func (o *serveOptions) frame() (*serveFrame, error) {
	f := &serveFrame{flags: o, meter: metrics.New(o.Env.ProgramVersion()),
		Options: serve.Options{Health: new(serve.Health), Delay: o.drainDelay, Drain: o.drain,
			Ready: func(addresses map[string]string) error {
				return o.Printer().Answer(&serveAnswer{output.SchemaVersion, addresses})
			},
		}}
	switch {
	case o.drain <= 0:
		return nil, cli.Usagef("--drain %s is not positive; give a duration such as 5s", o.drain)
	case o.drainDelay >= o.drain:
		return nil, cli.Usagef("--drain-delay %s has to be from 0 to less than --drain, which is %s",
			store.FormatPeriod(o.drainDelay),
			store.FormatPeriod(o.drain))
	case o.grpcAge != 0 && o.grpcAge < leastAge:
		return nil, cli.Usagef("--grpc-max-age %s has to be at least %s, or 0 for never", store.FormatPeriod(o.grpcAge),
			leastAge)
	case o.maxInFlight < 1:
		return nil, cli.Usagef("--max-in-flight %d has to be at least 1", o.maxInFlight)
	case o.maxConnections < 1:
		return nil, cli.Usagef("--max-connections %d has to be at least 1", o.maxConnections)
	case (o.certificate == "") != (o.key == ""):
		return nil, cli.Usagef("--tls-cert and --tls-key belong together; give both")
	case o.clientAuthority != "" && o.certificate == "":
		return nil, cli.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}
	var err error
	if f.Log, err = o.logger(); err != nil {
		return nil, err
	}
	if f.listen, err = f.address("listen", o.listen); err != nil {
		return nil, err
	}
	if f.admin, err = f.address("admin", o.admin); err != nil {
		return nil, err
	}
	if f.grpc, err = f.address("grpc", o.grpc); err != nil {
		return nil, err
	}
	if f.listen == nil && f.grpc == nil {
		return nil, cli.Usagef("--listen off needs --grpc ADDRESS, or nobody can ask")
	}
	if err := f.read(o.Env); err != nil {
		return nil, err
	}
	if o.grpcReflection && f.grpc == nil {
		return nil, cli.Usagef("--grpc-reflection needs --grpc ADDRESS")
	}
	if o.grpcTokens && (f.grpc == nil || f.tokens == nil) {
		return nil, cli.Usagef("--grpc-tokens needs --grpc, and access tokens (--token-file or %s)", tokenVariable)
	}
	f.Connections, f.ConnectionRefused = f.meter.Connections, f.meter.ConnectionRefused
	return f, nil
}

// address reads the address that a flag gives, nil for off.
func (f *serveFrame) address(flag, text string) (*serve.Address, error) {
	if text == "off" || text == "" && flag != "listen" {
		return nil, nil
	}
	address, err := serve.ParseAddress(text)
	if err != nil {
		return nil, cli.Usagef("--%s %s", flag, err)
	}
	return &address, nil
}

// read reads the certificates and tokens.
func (f *serveFrame) read(env *cli.Env) (err error) {
	if o := f.flags; o.certificate != "" {
		if f.certificates, err = serve.ReadCertificates(o.certificate, o.key, o.clientAuthority,
			files.ReadCertificate); err != nil {
			return cli.Usagef("TLS: %s", err)
		}
		f.watch("certificate", "the certificate", f.certificates.Source, func() (bool, map[string]any) {
			return true, map[string]any{"expires": f.certificates.Expires()}
		})
		f.meter.WatchCertificate(f.certificates.Expires, f.certificates.Stale)
	}
	variable := env.Getenv(tokenVariable)
	switch {
	case f.flags.tokenFile != "" && variable != "":
		return cli.Usagef("--token-file and %s both have access tokens; give one of them", tokenVariable)
	case f.flags.tokenFile != "":
		read := func(path string) ([]byte, error) { return files.Read(path, files.MaxPassword) }
		if f.tokens, err = serve.ReadAccessTokens(f.flags.tokenFile, read); err != nil {
			return cli.Usagef("--token-file %s: %s", f.flags.tokenFile, err)
		}
		f.watch("tokens", "access tokens", f.tokens.Source, func() (bool, map[string]any) {
			return true, map[string]any{"count": f.tokens.Count()}
		})
	case variable != "":
		if f.tokens, err = serve.ParseAccessTokens([]byte(variable)); err != nil {
			return cli.Usagef("%s: %s", tokenVariable, err)
		}
	}
	return nil
}

// watch reads files again when they change. /readyz has facts about them, and why they cannot be read again.
func (f *serveFrame) watch(part, what string, source *poll.Source[[][]byte],
	facts func() (ok bool, facts map[string]any)) {
	f.Background = append(f.Background, serve.Repeat(sys.Hangups(), func(ctx context.Context, _ bool) {
		switch changed, err := source.Look(ctx, false); {
		case err != nil:
			f.Log.Error(what+" cannot be read again; what was before stays in force", "error", err)
		case changed:
			f.Log.Info(what + " has changed, and is in force")
		}
	}))
	f.Health.Components = append(f.Health.Components, serve.Component{Name: part, State: func() (bool, any) {
		ok, shown := facts()
		if stale := source.Stale(); stale != "" {
			ok, shown["error"] = false, stale
		}
		return ok, shown
	}})
}

// guard protects a handler of /v1: with tokens it needs one of them, and without it refuses pages in browsers.
func (f *serveFrame) guard(next http.Handler) http.Handler {
	if f.tokens == nil {
		return serve.WithoutBrowsers(next, "/v1/auth/")
	}
	return f.tokens.Wrap(next, func(r *http.Request) []string { return api.Scopes(r.URL.Path) })
}

// programs adds the listener for programs, unless --listen is off, with the handler of /v1. It counts for the metrics,
// and with --log-requests for the log.
func (f *serveFrame) programs(handler http.Handler) {
	if f.listen == nil {
		return
	}
	const name = "http"
	if f.flags.logRequests {
		handler = f.meter.Listener(name, handler,
			(&serve.AccessLog{Log: f.Log, Listener: name, Tokens: f.tokens}).Begin)
	} else {
		handler = f.meter.Listener(name, handler, nil)
	}
	l := f.door(name, f.listen)
	l.Handler, l.RequestTime = handler, f.flags.Timeout+exchangeTime
	f.Listeners = append(f.Listeners, l)
}

// door returns the listener of that name at address, without what answers.
func (f *serveFrame) door(name string, address *serve.Address) serve.Listener {
	l := serve.Listener{Name: name, Address: *address, Certificates: f.certificates,
		MaxConnections: f.flags.maxConnections}
	anyClient := f.flags.clientAuthority == ""
	switch name {
	case "http":
		l.Open = anyClient && f.tokens == nil
	case "grpc":
		l.Open = anyClient && !f.flags.grpcTokens
	case "admin":
		l.Certificates, l.MaxConnections, l.RequestTime, l.Operators, l.Open = nil, operatorConnections, operatorTime,
			true, true
	}
	return l
}

// envoy adds the listener for Envoy, if --grpc asks for it.
func (f *serveFrame) envoy(e *engine.Engine, options envoy.Options) {
	if f.grpc == nil {
		return
	}
	options.Time, options.Calls = f.flags.Timeout+exchangeTime, f.flags.maxInFlight/4
	if f.flags.grpcTokens {
		options.Admits = f.tokens.Admits
	}
	log := serve.AccessLog{Log: f.Log, Listener: "grpc", Tokens: f.tokens}
	options.OnCall = func(path string, code codes.Code, took time.Duration, from string, authorization []string) {
		if f.meter.CallEnded(rls.CodeWord(code)); f.flags.logRequests {
			log.Called(path, rls.CodeWord(code), took, from, authorization)
		}
	}
	options.OnBug = func(err error) { f.Log.Error("a call failed by a bug", "door", "grpc", "error", err) }
	options.OnUnknownDomain = func(domain string) {
		f.Log.Warn("the configuration does not name the domain, so its requests are not limited", "door", "grpc",
			"domain",
			output.Shorten(domain, 100))
	}
	l := f.door("grpc", f.grpc)
	server := envoy.New(e, options)
	l.Server = server
	f.Listeners = append(f.Listeners, l)
	f.Background = append(f.Background, func(ctx context.Context) {
		<-ctx.Done()
		server.Draining()
	})
}

// operators adds the listener for operators, unless --admin is off. The health checks always get an answer.
func (f *serveFrame) operators() {
	if f.admin == nil {
		return
	}
	l := f.door("admin", f.admin)
	l.Handler = f.Health.Handler(serve.NewGate(operatorRequests, func() {}).Wrap(f.meter.Handler()))
	f.Listeners = append(f.Listeners, l)
}

// serveAnswer is the addresses of the server, once it is ready.
type serveAnswer struct {
	SchemaVersion int               `json:"schema_version"`
	Addresses     map[string]string `json:"addresses"` // by listener
}

// Records implements output.Answer.
func (a *serveAnswer) Records() [][]string {
	records := [][]string{{"door", "address"}}
	for listener, address := range a.Addresses {
		records = append(records, []string{listener, address})
	}
	slices.SortFunc(records[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return records
}

// Print implements output.Answer. People read the log.
func (a *serveAnswer) Print(*output.Printer) {}
