package setup

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/events"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// begin logs what is in force once the listeners are open.
func (f *serveFrame) begin(c *config.Config, where string) {
	names := make([]string, len(c.Policies))
	for i, p := range c.Policies {
		names[i] = p.Name
	}
	version, tell := f.flags.Env.ProgramVersion(), f.Ready
	if s, err := f.flags.Settings(); err == nil {
		where = s.Place(where)
	}
	f.Ready = func(addresses map[string]string) error { // with an address in use it does not serve
		f.Log.Info("limitctl serves", "version", version, "store", where, "files", c.Read, "policies", names,
			"hash", config.Hash(c), "denials", !c.NoDenials)
		return tell(addresses)
	}
}

// withoutSecretsIn removes secrets from the log.
func (o *serveOptions) withoutSecretsIn(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(o.WithoutSecrets(value.String()))
	case slog.KindAny:
		if err, is := value.Any().(error); is {
			a.Value = slog.StringValue(o.describe(err))
		}
	default: // numbers and times hold no secret
	}
	return a
}

// events returns the log of events while the server decides, which also feeds /readyz.
func (f *serveFrame) events() *events.Log {
	o := f.flags
	log := events.New(events.Options{Log: f.Log, Now: o.Env.Now, Describe: o.describe})
	f.Background = append(f.Background, serve.Repeat[struct{}](nil, log.Refresh))
	f.Health.Components = append(f.Health.Components, serve.Component{
		Name: "store", State: func() (bool, any) { return log.State() }})
	return log
}

// engineOptions connect an engine with the metrics and the log. The server stops when ctx ends.
func (f *serveFrame) engineOptions(ctx context.Context, log *events.Log) engine.Options {
	return engine.Options{
		Stops:       ctx,
		Timeout:     f.flags.Timeout,
		OnStoreCall: f.meter.StoreCall,
		OnDecision: func(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
			f.meter.Decided(ask, answer, err, took)
			log.Decision(ask, answer, err)
		},
		OnReplace: func(settings *engine.Settings, newBreaker bool) {
			f.meter.Configure(settings, newBreaker)
			if newBreaker {
				log.NewBreaker()
			}
		},
		Observer: limiter.Observer{
			OnFailure: log.Failure,
			OnBreaker: func(change limiter.BreakerChange) {
				f.meter.Breaker(change)
				log.Breaker(change)
			},
			OnOverrides: log.Overrides,
			OnDenialLog: log.Denials,
		},
	}
}

// reloader returns what puts another configuration in force, from the files or from the store; fallback is for the
// store.
func (f *serveFrame) reloader(ctx context.Context, c, fallback *config.Config, backend store.Store) (
	*engine.Reloader, error) {
	o := f.flags
	r := &engine.Reloader{
		Environment: cli.ConfigEnvironment(o.Globals),
		Config:      c,
		OnReload:    f.meter.Loaded,
		Describe:    o.describe,
		Log:         f.Log,
		Now:         o.Env.Now,
	}
	if !o.FromStore() {
		r.BeginFiles()
		if settings, err := f.published(backend); err == nil { // else nothing can be published there
			r.Compare(settings)
		}
	} else if err := f.follow(ctx, r, fallback, backend); err != nil {
		return nil, err
	}
	f.Health.Components = append(f.Health.Components, serve.Component{Name: "config", State: func() (bool, any) {
		state := r.State()
		return state.StaleSince == nil, state
	}})
	f.Background = append(f.Background, serve.Repeat(sys.Hangups(), r.Refresh))
	return r, nil
}

// checkPublished checks the flags, and returns the configuration to begin with if nothing was published; nil for none.
func (o *serveOptions) checkPublished() (fallback *config.Config, err error) {
	switch {
	case !o.FromStore() && o.fallback != "":
		return nil, cli.Usagef("--config-fallback is for --config store:; give a file with --config instead")
	case o.fallback == "":
		return nil, nil
	}
	data, err := readConfig(o.fallback)
	if err != nil {
		return nil, err
	}
	return config.Parse(o.fallback, data, nil)
}

// published returns the settings of what reads what is published in a store.
func (f *serveFrame) published(backend store.Store) (published.Settings, error) {
	o := f.flags
	table, err := published.TableOf(backend)
	process := published.Process{Name: "serve", Host: sys.Host(), PID: sys.Process(), Program: "limitctl " +
		o.Env.ProgramVersion()}
	return published.Settings{Table: table, Now: o.Env.Now, Timeout: o.Timeout, Process: process}, err
}

// follow begins with the published configuration.
func (f *serveFrame) follow(ctx context.Context, r *engine.Reloader, fallback *config.Config,
	backend store.Store) error {
	o := f.flags
	settings, err := f.published(backend)
	if err != nil {
		return err
	}
	settings.OnWarning = func(err error) {
		f.Log.Warn("the published configuration is in force, but not all is well", "error", err)
	}
	path, err := cli.PublishedFile(o.Globals)
	if err != nil {
		f.Log.Warn("the published configuration is not kept for a start without the store", "error", err)
	}
	settings.Cache = published.Cache{Path: path, Read: files.Read, Write: files.Write}
	return r.BeginPublished(ctx, settings, fallback)
}

// checked answers --check-config. Flags and files are read and have no mistake, and backend is not connected to; where
// is its name.
func (f *serveFrame) checked(c *config.Config, backend store.Store, where string) error {
	o := f.flags
	if o.FromStore() {
		if _, err := published.TableOf(backend); err != nil {
			return err
		}
	}
	answer := &checkAnswer{SchemaVersion: output.SchemaVersion, Valid: true, Files: c.Read, Policies: len(c.Policies),
		Store:     where,
		Addresses: map[string]string{}}
	for _, name := range []string{"http", "grpc", "admin"} {
		address := map[string]*serve.Address{"http": f.listen, "grpc": f.grpc, "admin": f.admin}[name]
		if address == nil {
			continue
		}
		answer.Addresses[name] = address.String()
		if l := f.door(name, address); !address.IsLocal() {
			for _, lacks := range l.Lacks() {
				o.Warn(name + " at " + address.String() + ": " + lacks)
			}
		}
	}
	return o.Print(answer)
}

// checkAnswer is what serve would start with.
type checkAnswer struct {
	SchemaVersion int               `json:"schema_version"`
	Valid         bool              `json:"valid"`
	Files         []string          `json:"files,omitempty"` // that the configuration is read from
	Policies      int               `json:"policies"`
	Store         string            `json:"store"`
	Addresses     map[string]string `json:"addresses"` // by listener
}

// Records implements output.Answer.
func (a *checkAnswer) Records() [][]string {
	return (&serveAnswer{Addresses: a.Addresses}).Records()
}

// Print implements output.Answer.
func (a *checkAnswer) Print(p *output.Printer) {
	from := ""
	if len(a.Files) > 0 {
		from = " of " + strings.Join(a.Files, ", ")
	}
	p.Line("%s: %s%s, limits in %s", p.Paint(output.Calm, "✓ valid"), output.Count(a.Policies, "policy", "policies"),
		from, a.Store)
}
