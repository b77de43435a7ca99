package setup

import (
	"context"
	"log/slog"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/serve/events"
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
	f.Ready = func(addresses map[string]string) error { // with an address in use it does not serve
		f.Log.Info("limitctl serves", "version", version, "store", f.flags.PlaceOf(where), "files", c.Read, "policies", names,
			"hash", engine.Hash(c), "denials", !c.NoDenials)
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
	log := events.New(events.Options{Log: f.Log, Now: o.Env.Now, Describe: o.describe, Subjects: o.logSubjects,
		Redis: cli.IsRedis(o.Chosen.Store.Value)})
	f.Refreshes = append(f.Refreshes, log.Refresh)
	f.Health.Components = append(f.Health.Components, serve.Component{Name: "store", State: func() (bool, any) { return log.State() }})
	return log
}

// engineOptions connect an engine with the metrics and the log.
func (f *serveFrame) engineOptions(log *events.Log) engine.Options {
	return engine.Options{
		Timeout:     f.flags.Timeout,
		OnStoreCall: f.meter.StoreCall,
		OnDecision: func(ask *engine.Ask, answer *decision.Answer, err error, took time.Duration) {
			f.meter.Decided(ask, answer, err, took)
			log.Decision(ask, answer, err, took)
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

// checkRecovery lets an open breaker check the store even without requests.
func (f *serveFrame) checkRecovery(e *engine.Engine, log *events.Log) {
	f.Refreshes = append(f.Refreshes, func(ctx context.Context, _ bool) {
		if _, state := log.State(); len(state.Breaker) > 0 {
			e.CheckRecovery(ctx)
		}
	})
}

// reloader returns what puts another configuration in force, from the files or from the store; fallback is for the store.
func (f *serveFrame) reloader(ctx context.Context, c, fallback *config.Config, backend store.Store) (r *engine.Reloader, err error) {
	o := f.flags
	options := engine.ReloadOptions{
		Environment: cli.ConfigEnvironment(o.Globals),
		Config:      c,
		OnReload:    f.meter.Reloaded,
		Describe:    o.describe,
		Log:         f.Log,
		Now:         o.Env.Now,
	}
	if !o.FromStore() {
		r = engine.ReloadFiles(options)
	} else if r, err = f.follow(ctx, options, fallback, backend); err != nil {
		return nil, err
	}
	f.meter.Loaded(r.State().Hash)
	f.Health.Components = append(f.Health.Components, serve.Component{Name: "config", State: func() (bool, any) {
		state := r.State()
		return state.StaleSince == nil, state
	}})
	f.Refreshes = append(f.Refreshes, r.Refresh)
	return r, nil
}
