package cmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/decision"
	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/events"
	"github.com/limitctl/limitctl/cmd/internal/serve/metrics"
	"github.com/limitctl/limitctl/cmd/internal/serve/reload"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// engineSettings are what a configuration says to an engine.
func engineSettings(c *config.Config) *engine.Settings {
	return &engine.Settings{Policies: c.Policies, Breaker: c.Breaker, Denials: c.ServesDenials(), HTTP: c.HTTP, Envoy: c.Envoy}
}

// begin reads the overrides that operators have set, so that they apply to the first request, and
// says what is in force.
func (f *serveFrame) begin(ctx context.Context, o *serveOptions, c *config.Config, e *engine.Engine, where string) {
	ctx, cancel := limiter.BudgetContext(ctx, o.timeout)
	defer cancel()
	if err := e.LoadOverrides(ctx); err != nil { // the engine tells why, and goes on to try
		f.Log.Debug("overrides were not read at the start", "error", err)
	}
	names := make([]string, len(c.Policies))
	for i, p := range c.Policies {
		names[i] = p.Name
	}
	f.Log.Info("limitctl serves", "version", o.env.Version, "store", o.placeOf(where), "files", c.Read, "policies", names,
		"hash", reload.Hash(c), "denials", c.ServesDenials())
}

// withoutSecretsIn takes secrets out of what the log says.
func (o *serveOptions) withoutSecretsIn(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(o.withoutSecrets(value.String()))
	case slog.KindAny:
		if err, is := value.Any().(error); is {
			a.Value = slog.StringValue(o.describe(err))
		}
	}
	return a
}

// events returns the log of what happens while the server decides, which also tells /readyz.
func (f *serveFrame) events(o *serveOptions) *events.Log {
	log := events.New(events.Options{Log: f.Log, Now: o.env.Now, Describe: o.describe, Subjects: o.logSubjects})
	f.Refreshes = append(f.Refreshes, log.Refresh)
	f.Health.Parts = append(f.Health.Parts, serve.Part{Name: "store", State: func() (bool, any) { return log.State() }})
	return log
}

// logged are an engine's options with a log told of what it decides, besides those that are told
// already.
func logged(options engine.Options, log *events.Log) engine.Options {
	onReplace, onBreaker, onDecision := options.OnReplace, options.OnBreaker, options.OnDecision
	options.OnReplace = func(settings *engine.Settings, newBreaker bool) {
		onReplace(settings, newBreaker)
		log.Replaced(settings, newBreaker)
	}
	options.OnBreaker = func(change limiter.BreakerChange) {
		onBreaker(change)
		log.Breaker(change)
	}
	options.OnDecision = func(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
		onDecision(ask, answer, err, took)
		log.Decision(ask, answer, err, took)
	}
	options.OnFailure = func(p *policy.Policy, err error) { log.Failure(p, err) }
	options.OnOverrides, options.OnOverridesRead = log.Overrides, log.OverridesRead
	options.OnDenials, options.OnDenialsWritten = log.Denials, log.DenialsWritten
	return options
}

// reloads puts other configurations in force when the files change. check says why one cannot be.
func (f *serveFrame) reloads(
	o *serveOptions, c *config.Config, e *engine.Engine, counted *metrics.Metrics, check func(*config.Config) error,
) {
	reloader := reload.New(reload.Options{
		Environment: configEnvironment(o.globalOptions),
		Config:      c,
		Check:       check,
		Apply:       func(c *config.Config) { e.Replace(engineSettings(c)) },
		Fixed:       o.fixedSettings,
		Told:        counted.Reloaded,
		Describe:    o.describe,
		Subjects:    o.logSubjects,
		Log:         f.Log,
		Now:         o.env.Now,
		Sleep:       o.env.Sleep,
	})
	counted.Loaded(reloader.State().Hash)
	f.Refreshes = append(f.Refreshes, func(ctx context.Context, asked bool) { reloader.Refresh(ctx, asked) })
	f.Health.Parts = append(f.Health.Parts, serve.Part{Name: "config", State: func() (bool, any) {
		state := reloader.State()
		return state.StaleSince == nil, state
	}})
}

// fixedSettings are what a configuration says that counts at the start of the server: which store
// it has, and what its keys begin with.
func (o *serveOptions) fixedSettings(c *config.Config) map[string]string {
	fixed := map[string]string{}
	prefix := c.Prefix
	if o.chosen != nil && o.chosen.context != nil {
		if x, err := c.Context(o.chosen.context.Name); err == nil {
			fixed["store"] = x.Store + "\n" + x.PasswordFile + "\n" + x.PasswordEnv
			if x.Prefix != "" {
				prefix = x.Prefix
			}
		} else {
			fixed["store"] = "none"
		}
	}
	if !o.changed("prefix") {
		fixed["prefix"] = prefix
	}
	return fixed
}
