package setup

import (
	"cmp"
	"context"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// publishedFlags are the flags of serve about a published configuration.
type publishedFlags struct {
	fallback, process string
	checkOnly         bool // do not serve
}

func (f *publishedFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.fallback, "config-fallback", "",
		"with --config store:, begin with `FILE` if nothing was published and none was kept")
	flags.BoolVar(&f.checkOnly, "check-config", false, "find mistakes in flags and files, serve nothing, and connect to nothing")
	flags.StringVar(&f.process, "process-name", "", "with --config store:, be called `NAME` in config status (default serve)")
}

// checkPublished checks the flags, and returns the configuration to begin with if nothing was published; nil for none.
func (o *serveOptions) checkPublished() (fallback *config.Config, err error) {
	switch {
	case !o.FromStore() && o.fallback != "":
		return nil, cli.Usagef("--config-fallback is for --config store:; give a file with --config instead")
	case !o.FromStore() && o.process != "":
		return nil, cli.Usagef("--process-name is for --config store:, whose processes config status shows")
	case o.fallback == "":
		return nil, nil
	}
	data, err := o.Env.ReadConfig(o.fallback)
	if err != nil {
		return nil, cli.Usagef("--config-fallback %s cannot be read: %s", o.fallback, err)
	}
	if fallback, err = config.Parse(o.fallback, data, nil); err != nil {
		return nil, err
	}
	env := cli.ConfigEnvironment(o.Globals)
	return fallback, fallback.AddRatelimit(&env)
}

// follow returns what follows the published configuration.
func (f *serveFrame) follow(
	ctx context.Context, options engine.ReloadOptions, fallback *config.Config, backend store.Store,
) (*engine.Reloader, error) {
	o := f.flags
	table, err := published.TableOf(backend)
	if err != nil {
		return nil, err
	}
	settings := published.Settings{Table: table, Now: o.Env.Now, Timeout: o.Timeout,
		Process: published.Process{Name: cmp.Or(o.process, "serve"), Host: o.Env.Host(), PID: o.Env.Process, Program: "limitctl " +
			o.Env.ProgramVersion()},
		OnWarning: func(err error) {
			f.Log.Warn("the published configuration is in force, but not all is well", "error", err)
		}}
	path, err := cli.PublishedFile(o.Globals)
	if err != nil {
		f.Log.Warn("the published configuration is not kept for a start without the store", "error", err)
	} else {
		settings.Keep = func(record string) error { return o.Env.WriteFile(path, []byte(record)) }
		settings.Kept = func() (string, error) {
			record, err := o.Env.ReadFile(path, admin.MaxConfigRecord)
			return string(record), err
		}
	}
	return engine.ReloadPublished(ctx, options, settings, fallback)
}
