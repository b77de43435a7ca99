package cmd

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/overridetext"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// printOverrides says which overrides applied.
func (a *decisionAnswer) printOverrides(p *output.Printer) {
	var applied []*store.Override
	for i := range a.decisions {
		applied = append(applied, a.decisions[i].Override)
	}
	printApplied(p, applied, a.now)
}

// printApplied says of overrides that they apply, of each once. Some may be nil.
func printApplied(p *output.Printer, applied []*store.Override, now time.Time) {
	said := map[string]bool{}
	for _, o := range applied {
		if o == nil || said[o.ID] {
			continue
		}
		said[o.ID] = true
		p.Line("override %s applies: %s %s", o.ID, overridetext.Effect(o), ending(o, now))
	}
}

// operatorsText names an operator's override in a column of notes.
func operatorsText(o *store.Override) string { return "operator's " + overridetext.Effect(o) }

// overridesLayer returns the layer by which the overrides in force in backend apply. They are read now. If
// they cannot be, the store decides without them, and request says why.
func overridesLayer(ctx context.Context, g *globalOptions, backend store.Store, request *limitRequest) func(store.Store) store.Store {
	watch := layers.WatchOverrides(backend, layers.Overrides{})
	ctx, cancel := store.BudgetContext(ctx, g.timeout/operation.OverrideShare)
	defer cancel()
	request.withoutOverrides = watch.Load(ctx)
	return watch.Wrap
}

// budgetLayer bounds each call of the store by --timeout.
func (g *globalOptions) budgetLayer(backend store.Store) store.Store {
	return store.WithBudget(backend, g.timeout)
}

// warnOfOverrides says that overrides do not apply, if err is why they could not be read.
func (g *globalOptions) warnOfOverrides(err error) {
	if err != nil && !g.quiet {
		g.note("warning: overrides cannot be read, and do not apply: %s", message(err))
	}
}

// overridesOf reads the overrides that are in force in a store. With an error there is a
// list, too: of those that could be read.
func (g *globalOptions) overridesOf(ctx context.Context, backend store.Store) (*store.OverrideList, error) {
	table, has := admin.OverrideTableOf(backend)
	if !has {
		return store.NewOverrideList(nil), nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.timeout)
	defer cancel()
	overrides, _, err := table.Overrides(ctx)
	return store.NewOverrideList(overrides), err
}

// overrideMark marks keys that an operator's override applies to, which is named below the
// table.
const overrideMark = "⚑"
