package setup

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/api"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/envoy"
	"github.com/limitctl/limitctl/internal/serve/metrics"
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
	taken         []int // the inherited sockets that have a listener
}

// frame reads the flags, and the files that they name.
func (o *serveOptions) frame() (*serveFrame, error) {
	f := &serveFrame{flags: o, meter: metrics.New(metrics.Options{Version: o.Env.ProgramVersion()}), Options: serve.Options{
		Health: new(serve.Health), Delay: o.drainDelay, Drain: o.drain, Hangups: o.Env.Signals(syscall.SIGHUP),
		Ready: func(addresses map[string]string) error {
			return o.Printer().Answer(&serveAnswer{output.SchemaVersion, addresses})
		},
	}}
	switch {
	case o.drain <= 0:
		return nil, cli.Usagef("--drain %s is not positive; give a duration such as 5s", o.drain)
	case o.drainDelay >= o.drain:
		return nil, cli.Usagef("--drain-delay %s has to be from 0 to less than --drain, which is %s", store.FormatPeriod(o.drainDelay),
			store.FormatPeriod(o.drain))
	case o.grpcAge != 0 && o.grpcAge < leastAge:
		return nil, cli.Usagef("--grpc-max-age %s has to be at least %s, or 0 for never", store.FormatPeriod(o.grpcAge), leastAge)
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
	if err := o.metricsFlags.check(); err != nil {
		return nil, err
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
	f.measure()
	return f, nil
}

// address reads the address that a flag gives, nil for off.
func (f *serveFrame) address(flag, text string) (*serve.Address, error) {
	if text == "off" || text == "" && flag != "listen" {
		return nil, nil
	}
	if name, is := strings.CutPrefix(text, inheritedScheme); is {
		return f.inherited(flag, name)
	}
	address, err := serve.ParseAddress(text)
	if err != nil {
		return nil, cli.Usagef("--%s %s", flag, err)
	}
	return &address, nil
}

// read reads the certificates and tokens.
func (f *serveFrame) read(env *cli.Env) (err error) {
	if f.flags.certificate != "" {
		f.certificates, err = serve.ReadCertificates(f.flags.certificate, f.flags.key, f.flags.clientAuthority, env.ReadCertificate)
		if err != nil {
			return cli.Usagef("TLS: %s", err)
		}
		f.Refreshes = append(f.Refreshes, f.refreshCertificates(env.Now))
		f.Health.Components = append(f.Health.Components, serve.Component{Name: "certificate", State: f.certificateState(env.Now)})
	}
	variable := env.Getenv(tokenVariable)
	switch {
	case f.flags.tokenFile != "" && variable != "":
		return cli.Usagef("--token-file and %s both have access tokens; give one of them", tokenVariable)
	case f.flags.tokenFile != "":
		read := func(path string) ([]byte, error) { return env.ReadFile(path, files.MaxPassword) }
		if f.tokens, err = serve.ReadAccessTokens(f.flags.tokenFile, read); err != nil {
			return cli.Usagef("--token-file %s: %s", f.flags.tokenFile, err)
		}
		f.Refreshes = append(f.Refreshes, f.refreshTokens)
		f.Health.Components = append(f.Health.Components, serve.Component{Name: "tokens", State: f.tokenState})
	case variable != "":
		if f.tokens, err = serve.ParseAccessTokens([]byte(variable)); err != nil {
			return cli.Usagef("%s: %s", tokenVariable, err)
		}
	}
	return nil
}

// refreshCertificates reads the certificates again, and says once a day if they are old.
func (f *serveFrame) refreshCertificates(now func() time.Time) func(context.Context, bool) {
	var warned time.Time
	return func(ctx context.Context, _ bool) {
		changed, err := f.certificates.Look(ctx, false)
		switch {
		case err != nil:
			f.Log.Error("the certificate cannot be read again; the old one stays in force", "error", err)
		case changed:
			f.Log.Info("another certificate is in force", "expires", f.certificates.Expires())
		}
		if now := now(); f.certificates.Old(now) && (changed || now.Sub(warned) >= 24*time.Hour) {
			warned = now
			f.Log.Warn("the certificate ends soon", "expires", f.certificates.Expires())
		}
	}
}

// certificateState is what /readyz reports of the certificates.
func (f *serveFrame) certificateState(now func() time.Time) func() (bool, any) {
	return func() (bool, any) {
		facts := struct {
			Expires time.Time `json:"expires"`
			Error   string    `json:"error,omitempty"` // why the files cannot be read again
		}{f.certificates.Expires(), f.certificates.Stale()}
		return facts.Error == "" && !f.certificates.Old(now()), facts
	}
}

func (f *serveFrame) refreshTokens(ctx context.Context, _ bool) {
	switch changed, err := f.tokens.Look(ctx, false); {
	case err != nil:
		f.Log.Error("the access tokens cannot be read again; the old ones stay in force", "error", err)
	case changed:
		f.Log.Info("other access tokens are in force")
	}
}

// tokenState is what /readyz reports of the tokens.
func (f *serveFrame) tokenState() (bool, any) {
	facts := struct {
		Count int    `json:"count"`
		Error string `json:"error,omitempty"` // why the file cannot be read again
	}{f.tokens.Count(), f.tokens.Stale()}
	return facts.Error == "", facts
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
		log := &serve.AccessLog{Log: f.Log, Listener: name}
		handler = log.Wrap(f.meter.Listener(name, handler, log.Answered))
	} else {
		handler = f.meter.Listener(name, handler, nil)
	}
	l := f.door(name, f.listen)
	l.Handler, l.RequestTime = handler, f.flags.Timeout+exchangeTime
	f.Listeners = append(f.Listeners, l)
}

// door returns the listener of that name at address, without what answers.
func (f *serveFrame) door(name string, address *serve.Address) serve.Listener {
	l := serve.Listener{Name: name, Address: *address, Certificates: f.certificates, MaxConnections: f.flags.maxConnections}
	anyClient := f.flags.clientAuthority == ""
	switch name {
	case "http":
		l.Open = anyClient && f.tokens == nil
	case "grpc":
		l.Open = anyClient && !f.flags.grpcTokens
	case "admin":
		l.Certificates, l.MaxConnections, l.RequestTime, l.Operators, l.Open = nil, operatorConnections, operatorTime, true, true
	}
	return l
}

// envoy adds the listener for Envoy, if --grpc asks for it.
func (f *serveFrame) envoy(e *engine.Engine, options envoy.Options) {
	if f.grpc == nil {
		return
	}
	options.Time, options.Calls = f.flags.Timeout+exchangeTime, f.flags.maxInFlight/4
	options.OnEnd = func(code codes.Code) { f.meter.CallEnded(rls.CodeWord(code)) }
	if f.flags.grpcTokens {
		options.Admits, options.Caller = f.tokens.Admits, f.tokens.Name
	}
	if f.flags.logRequests {
		log := &serve.AccessLog{Log: f.Log, Listener: "grpc"}
		options.OnCall = func(c *envoy.Call) {
			log.Called(c.Path, rls.CodeWord(c.Code), c.Took, c.From.String(), c.Caller)
		}
	}
	options.OnBug = func(err error) { f.Log.Error("a call failed by a bug", "door", "grpc", "error", err) }
	options.OnUnknownDomain = envoy.Seldom(func(domain string) {
		f.Log.Warn("no configuration names the domain, so its requests are not limited", "door", "grpc", "domain",
			output.Shorten(domain, 100))
	})
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
	mux := http.NewServeMux()
	f.Health.Register(mux)
	mux.Handle("/metrics", serve.NewGate(operatorRequests, nil).Wrap(f.meter.Handler()))
	mux.Handle("/", serve.Nothing())
	l := f.door("admin", f.admin)
	l.Handler = mux
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
