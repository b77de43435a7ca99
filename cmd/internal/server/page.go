package server

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/page"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// pagePath is where the page is at the address of operators.
const pagePath = "/dashboard/"

// pageFlags are the flags of serve about the page.
type pageFlags struct{ page, mask bool }

func (f *pageFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.page, "page", false, "show the dashboard as a page in browsers, at "+pagePath+" of the address of --admin")
	flags.BoolVar(&f.mask, "mask", false, "the page shows marks instead of the values in subjects, and no reasons of overrides")
}

// checkPage is called when the addresses and tokens are known.
func (f *serveFrame) checkPage() error {
	switch flags := &f.flags.pageFlags; {
	case flags.mask && !flags.page:
		return cli.Usagef("--mask is about the page; give --page, too")
	case flags.page && f.admin == nil:
		return cli.Usagef("--page is at the address of --admin, which is off")
	case flags.page && !f.admin.Local() && f.tokens == nil:
		return cli.Usagef("--page: others reach the address of --admin, %s, so it needs --token-file; "+
			"127.0.0.1:9090 is for this machine only",
			f.admin)
	}
	return nil
}

// showPage adds the page, if --page asks for it. The limits in force follow the configuration; see configured.
func (f *serveFrame) showPage(ctx context.Context, c *config.Config, backend connect.Store, where string) {
	if !f.flags.page {
		return
	}
	env := f.flags.Env
	f.limits = new(atomic.Pointer[cli.ConfiguredLimits])
	f.configured(c)
	backend = connect.ReadOnly(backend, "page")
	everybody, err := store.ParsePattern("*")
	if err != nil {
		panic(err) // it is a pattern
	}
	o := page.Options{Mask: f.flags.mask, Describe: f.flags.describe,
		Likely: func(subject string) []store.Key { return cli.KeysOf(f.flags.Globals, subject) },
		Dash: dash.Options{Store: backend, Where: f.flags.PlaceOf(where), Query: admin.Query{Subjects: everybody}, Refresh: time.Second,
			Timeout: f.flags.Timeout, MaxKeys: 2000, Now: env.Now, Sleep: env.Sleep,
			InForce: func(e *admin.Entry, o *store.Override) store.Limit { return f.limits.Load().InForce(e, o) }}}
	o.Dash.Denials, _ = admin.DenialTableOf(backend)
	o.Dash.Overrides, _ = admin.OverrideTableOf(backend)
	if f.tokens != nil {
		o.Guard = f.tokens.Readers
	}
	shown := page.New(o)
	f.page = http.StripPrefix(pagePath[:len(pagePath)-1], shown.Handler())
	context.AfterFunc(ctx, shown.Stop) // the streams of browsers end only with the process, so they are not waited for
	f.Background = append(f.Background, func(ctx context.Context) {
		if err := shown.Run(ctx); ctx.Err() == nil {
			f.Log.Error("the page cannot be shown any longer", "error", err)
		}
	})
}

// configured takes in another configuration.
func (f *serveFrame) configured(c *config.Config) {
	if f.limits != nil {
		limits := cli.NewConfiguredLimits(c)
		f.limits.Store(&limits)
	}
}
