package see

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// dashActions changes keys for the dashboard, by the operations of reset and restore.
type dashActions struct {
	globals cli.Globals // quiet
	runner  *operation.Runner
	// consent covers everything: the dashboard has asked already, in its own way.
	consent  operation.Consent
	observer *cli.Observer // shows nothing, as globals are quiet
	backups  []string      // of what was reset
	// warning is printed when the dashboard ends; empty if there is none.
	warning string
}

// newDashActions returns nil if the store is read-only.
func newDashActions(g *cli.Globals, s *cli.Settings, backend connect.Store, where string) *dashActions {
	access := s.Access()
	if access.ReadOnly {
		return nil
	}
	actions := &dashActions{
		globals: *g,
		runner:  cli.NewRunner(g, s, backend, where),
		consent: operation.Consent{Yes: true, Context: access.Context},
	}
	actions.runner.Warn, actions.globals.Quiet = actions.warn, true
	actions.observer = &cli.Observer{Global: &actions.globals}
	return actions
}

// warn keeps a warning until the dashboard ends. The first one is enough: all are about the audit log in the store, and
// equal.
func (a *dashActions) warn(err error) { a.warning = cmp.Or(a.warning, cli.Message(err)) }

// Reset implements live.Actions.
func (a *dashActions) Reset(ctx context.Context, key store.Key) (done live.Changed, err error) {
	text := "in the dashboard: " + output.Printable(key.String())
	selection := operation.Selection{Query: admin.Query{Keys: []store.Key{key}}}
	plan := &operation.ResetPlan{Selection: selection, Text: text, Consent: a.consent}
	if plan.Backup, err = cli.DefaultBackup(a.globals.Env); err != nil {
		return done, err
	}
	result, err := a.runner.Reset(ctx, plan, a.observer)
	if result != nil {
		done.Keys = result.Changed
		if done.Backup = result.Backup; done.Backup != "" {
			a.backups = append(a.backups, done.Backup)
		}
	}
	return done, err
}

// Undo implements live.Actions. That keys were used since and left is not an error here: the dashboard says so.
func (a *dashActions) Undo(ctx context.Context, reset live.Changed) (done live.Changed, err error) {
	plan := &operation.RestorePlan{Consent: a.consent}
	if plan.Backup, err = operation.OpenBackup(reset.Backup, a.runner.Place.Prefix); err != nil {
		return done, err
	}
	defer plan.Backup.Close()
	result, err := a.runner.Restore(ctx, plan, a.observer)
	if result == nil {
		return done, err
	}
	done = live.Changed{Keys: result.Changed, InUse: result.InUse, Lapsed: result.Lapsed, Backup: reset.Backup}
	if used := (*operation.UsedSinceError)(nil); errors.As(err, &used) {
		err = nil
	}
	return done, err
}

// ParseOverride implements live.Actions, by the rules of the flags of override set.
func (a *dashActions) ParseOverride(form live.OverrideForm) (o store.Override, lasts time.Duration, err error) {
	o.Effect, o.Reason = form.Effect, form.Reason
	if lasts, err = store.ParsePeriod(form.For); err != nil || lasts < time.Second || lasts > store.MaxOverrideTime {
		return o, lasts, cli.Usagef("%q is not a duration from 1s to 30d; write it like 45m, 2h or 1d", form.For)
	}
	switch form.Effect {
	case store.OverrideTimes:
		o.Thousandths, err = cli.ParseTimes(form.Value)
	case store.OverrideAdd:
		o.Units, err = store.ParseNumber("the number of units", form.Value, math.MinInt64, math.MaxInt64)
	case store.OverrideLimit:
		o.Limit, err = store.ParseLimit(form.Value)
	case store.OverrideBlock, store.OverrideExempt:
	}
	if err == nil {
		err = o.Check(lasts)
	}
	return o, lasts, err
}

// ParseSubjects implements live.Actions. The dashboard shows which client an address is.
func (a *dashActions) ParseSubjects(pattern string) (store.Pattern, error) {
	named, err := a.globals.NameClients(context.Background(), false, "", []string{pattern})
	if err != nil {
		return store.Pattern{}, err
	}
	return cli.ParseSubjects(named[0], false)
}

// SetOverride implements live.Actions.
func (a *dashActions) SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	text := "in the dashboard: " + output.Printable(o.Subjects.String()) + " " + o.Effect.String()
	plan := &operation.OverridePlan{Override: o, Lasts: lasts, Text: text, Consent: a.consent}
	set, err := a.runner.SetOverride(ctx, plan, a.observer)
	if set == nil {
		return o, err
	}
	return *set, err
}

// RevokeOverride implements live.Actions.
func (a *dashActions) RevokeOverride(ctx context.Context, id string) error {
	_, err := a.runner.RevokeOverrides(ctx, []string{id}, a.consent, a.observer)
	return err
}
