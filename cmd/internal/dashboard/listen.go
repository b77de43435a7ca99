package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/page"
	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// listenFlags are the flags of the page.
type listenFlags struct {
	address, tokenFile                string
	certificate, key, clientAuthority string
	mask                              bool
}

func (f *listenFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "listen", "", "show a page in browsers at `ADDRESS` instead, such as 127.0.0.1:8081")
	flags.StringVar(&f.tokenFile, "token-file", "", "the page needs an access token from `FILE`")
	flags.StringVar(&f.certificate, "tls-cert", "", "serve the page with TLS by the certificates in `FILE`")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` with the key of the certificate")
	flags.StringVar(&f.clientAuthority, "tls-client-ca", "", "the page needs a client certificate, signed by an authority in `FILE`")
	flags.BoolVar(&f.mask, "mask", false, "the page shows marks instead of the values in subjects, and no reasons of overrides")
}

// checkListen reports flags of the page that do not belong together.
func (o *dashboardOptions) checkListen() error {
	f := &o.page
	if f.address == "" {
		for _, flag := range []struct {
			name  string
			given bool
		}{
			{"token-file", f.tokenFile != ""}, {"tls-cert", f.certificate != ""}, {"tls-key", f.key != ""},
			{"tls-client-ca", f.clientAuthority != ""}, {"mask", f.mask},
		} {
			if flag.given {
				return cli.Usagef("--%s is about the page; give --listen ADDRESS, too", flag.name)
			}
		}
		return nil
	}
	switch {
	case o.once || o.record != "" || o.play != "":
		return cli.Usagef("--listen shows a page; it cannot be given with --once, --record or --play")
	case o.Layouts != nil:
		return cli.Usagef("the page shows limitctl's own keys; leave out --layout, or the dashboard's --listen")
	case (f.certificate == "") != (f.key == ""):
		return cli.Usagef("--tls-cert and --tls-key belong together; give both")
	case f.clientAuthority != "" && f.certificate == "":
		return cli.Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return nil
}

// runPage serves the page until ctx ends.
func runPage(ctx context.Context, o *dashboardOptions, options dash.Options) error {
	f := &o.page
	address, err := serve.ParseAddress(f.address)
	if err != nil {
		return cli.Usagef("--listen %s", err)
	}
	if !address.Local() && f.tokenFile == "" && f.clientAuthority == "" {
		return cli.Usagef("--listen %s: others reach this address, so the page needs --token-file or --tls-client-ca; "+
			"127.0.0.1 is for this machine only", f.address)
	}
	server := serve.Options{Health: new(serve.Health), Drain: 2 * time.Second, Remove: o.Env.Remove, Hangups: o.Env.Hangups(),
		Log: slog.New(slog.NewTextHandler(o.Env.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	listener := serve.Listener{Name: "listen", Address: address, Operators: true, MaxConnections: 256, RequestTime: time.Minute,
		Open: f.tokenFile == "" && f.clientAuthority == ""}
	refresh := func(what string, again func() (bool, error)) {
		server.Refreshes = append(server.Refreshes, func(context.Context, bool) {
			if _, err := again(); err != nil {
				server.Log.Error(what+" cannot be read again; the old stays in force", "error", err)
			}
		})
	}
	if f.certificate != "" {
		listener.Certificates, err = serve.ReadCertificates(f.certificate, f.key, f.clientAuthority, o.Env.ReadCertificate)
		if err != nil {
			return cli.Usagef("%s: %s", serve.CertificateFlag(err, f.certificate, f.key, f.clientAuthority), err)
		}
		refresh("the certificate", listener.Certificates.Refresh)
	}
	show := page.Options{Dash: options, Mask: f.mask, Describe: func(err error) string { return o.WithoutSecrets(cli.Message(err)) },
		Likely: func(subject string) []store.Key { return cli.KeysOf(o.Globals, subject) }}
	if f.tokenFile != "" {
		read := func(path string) ([]byte, error) { return o.Env.ReadFile(path, files.MaxPassword) }
		tokens, err := serve.ReadAccessTokens(f.tokenFile, read)
		if err != nil {
			return cli.Usagef("--token-file %s: %s", f.tokenFile, err)
		}
		refresh("the file of access tokens", tokens.Refresh)
		show.Guard = tokens.Readers
	} else if f.clientAuthority != "" {
		show.Guard = func(next http.Handler) http.Handler { return next } // the handshake has asked for the certificate
	}
	backend, where, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	backend = connect.ReadOnly(backend, "page")
	show.Dash.Store, show.Dash.Where = backend, o.PlaceOf(where)
	show.Dash.Denials, _ = admin.DenialTableOf(backend)
	show.Dash.Overrides, _ = admin.OverrideTableOf(backend)
	if c, err := o.Config(); err == nil {
		show.Dash.InForce = cli.NewConfiguredLimits(c).InForce
	}
	shown := page.New(show)
	listener.Handler = shown.Handler()
	server.Listeners = []serve.Listener{listener}
	server.Ready = func(addresses map[string]string) error {
		scheme := "http"
		if listener.Certificates != nil {
			scheme = "https"
		}
		if at := addresses[listener.Name]; address.Local() {
			o.Note("the page is at %s://%s/, until Ctrl-C", scheme, at)
		} else {
			o.Note("the page is at %s (%s), until Ctrl-C", at, scheme)
		}
		return nil
	}
	interrupted := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server.Background = []func(context.Context){func(inner context.Context) {
		if err := shown.Run(inner); inner.Err() == nil {
			cancel(fmt.Errorf("the page cannot be shown any longer: %w", err))
		}
	}}
	// The streams of browsers end only with the process, so they are not waited for.
	stop := context.AfterFunc(ctx, shown.Stop)
	defer stop()
	o.Env.Hold() // an interrupt lets it end in order
	if err := serve.Run(ctx, &server); err != nil {
		return err
	}
	if err := interrupted.Err(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
