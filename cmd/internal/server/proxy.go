package server

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/proxy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// proxyOptions are the flags of serve as a limiting reverse proxy.
type proxyOptions struct {
	upstream string
	policy   string
	host     string
	timeout  time.Duration
	maxBody  int64
}

func (o *proxyOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.upstream, "proxy", "", "pass allowed requests on to `UPSTREAM`, such as http://127.0.0.1:3000, "+
		"h2c://127.0.0.1:3000 or unix:/run/app.sock; /v1 is then at --admin")
	flags.StringVar(&o.policy, "policy", "", "with --proxy: limit requests by the policy `NAME`")
	flags.StringVar(&o.host, "proxy-host", "", "with --proxy: send `HOST` as the Host header; the default is the client's")
	flags.DurationVar(&o.timeout, "proxy-timeout", proxy.DefaultTimeout,
		"with --proxy: answer 504 if the upstream does not begin its answer within `DURATION`")
	flags.Int64Var(&o.maxBody, "proxy-max-body", 0, "with --proxy: refuse requests with a body over `BYTES`; 0 for no bound")
}

// check checks the flags. It returns no upstream without --proxy.
func (o *proxyOptions) check(cmd *cobra.Command, c *config.Config) (*proxy.Upstream, error) {
	if o.upstream == "" {
		for _, name := range []string{"policy", "proxy-host", "proxy-timeout", "proxy-max-body"} {
			if cmd.Flags().Changed(name) {
				return nil, store.Invalidf("--%s is for --proxy, which is not given", name)
			}
		}
		return nil, nil
	}
	upstream, err := proxy.ParseUpstream(o.upstream)
	switch {
	case err != nil:
		return nil, cli.Usagef("--proxy: %s", err)
	case o.policy == "":
		return nil, store.Invalidf("--proxy needs --policy NAME, the policy that limits its requests")
	case o.timeout <= 0:
		return nil, store.Invalidf("--proxy-timeout must be above zero")
	case o.maxBody < 0:
		return nil, store.Invalidf("--proxy-max-body must not be below zero")
	}
	return upstream, o.checkPolicy(c)
}

// checkPolicy reports a policy that could not limit a single request.
func (o *proxyOptions) checkPolicy(c *config.Config) error {
	p, err := c.Policy(o.policy)
	if err != nil {
		return err
	}
	if missing := config.Unsourced(c, p); len(missing) > 0 {
		return store.Invalidf("policy %q needs %s, and its http.attributes does not say where in a request that is", o.policy,
			strings.Join(missing, " and "))
	}
	return nil
}

// handler returns the proxy.
func (o *proxyOptions) handler(e *engine.Engine, upstream *proxy.Upstream, log *slog.Logger) http.Handler {
	return proxy.Handler(e, proxy.Options{
		Upstream: upstream, Policy: o.policy, Host: o.host, Timeout: o.timeout, MaxBody: o.maxBody, Log: log,
	})
}
