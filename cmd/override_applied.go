package cmd

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// appliedOverride is the override that a decision was made under, in JSON.
type appliedOverride struct {
	ID        string    `json:"id"`
	Effect    string    `json:"effect"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	// Asked is the limit as it is without the override.
	Asked string `json:"asked,omitempty"`
}

// newAppliedOverride returns nil for no override. asked is the limit without it, or zero if
// that is not known.
func newAppliedOverride(o *limiter.Override, asked limiter.Limit) *appliedOverride {
	if o == nil {
		return nil
	}
	applied := &appliedOverride{ID: o.ID, Effect: o.Effect.String(), ExpiresAt: inUTC(o.ExpiresAt), Reason: o.Reason, By: o.By}
	if asked.Count != 0 {
		applied.Asked = asked.String()
	}
	return applied
}

// cells are its CSV, empty for no override.
func (a *appliedOverride) cells() []string {
	if a == nil {
		return make([]string, 5)
	}
	return []string{a.ID, a.Effect, a.ExpiresAt.Format(time.RFC3339), a.Reason, a.By}
}

// effective is the limit that the i-th decision was made by.
func (a *decisionAnswer) effective(i int) limiter.Limit {
	limit := a.reqs[i].Limit
	if o := a.decisions[i].Override; o != nil {
		limit = o.Apply(limit)
	}
	return limit
}

// applied is the override to name for the whole answer: that of the first limit that
// denied, else of the first limit that has one.
func (a *decisionAnswer) applied() *appliedOverride {
	first := -1
	for _, i := range limiter.Summarize(a.decisions).DeniedBy {
		if a.decisions[i].Override != nil {
			first = i
			break
		}
	}
	for i := range a.decisions {
		if first < 0 && a.decisions[i].Override != nil {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	return newAppliedOverride(a.decisions[first].Override, a.reqs[first].Limit)
}

// printOverrides says which overrides applied.
func (a *decisionAnswer) printOverrides(p *output.Printer) {
	var applied []*limiter.Override
	for i := range a.decisions {
		applied = append(applied, a.decisions[i].Override)
	}
	printApplied(p, applied, a.now)
}

// printApplied says of overrides that they apply, of each once. Some may be nil.
func printApplied(p *output.Printer, applied []*limiter.Override, now time.Time) {
	said := map[string]bool{}
	for _, o := range applied {
		if o == nil || said[o.ID] {
			continue
		}
		said[o.ID] = true
		p.Line("override %s applies: %s %s", o.ID, effectText(o), ending(o, now))
	}
}

// operatorsText names an operator's override in a column of notes.
func operatorsText(o *limiter.Override) string { return "operator's " + effectText(o) }

// withOverrides wraps store so that the overrides in force in it apply. They are read now. If
// they cannot be, the store decides without them, and request says why.
func withOverrides(ctx context.Context, g *globalOptions, store limiter.Store, request *limitRequest) limiter.Store {
	watch := limiter.WatchOverrides(store, limiter.Overrides{})
	ctx, cancel := limiter.BudgetContext(ctx, g.timeout/operation.OverrideShare)
	defer cancel()
	request.withoutOverrides = watch.Load(ctx)
	return watch.Wrap(store)
}

// warnOfOverrides says that overrides do not apply, if err is why they could not be read.
func (g *globalOptions) warnOfOverrides(err error) {
	if err != nil && !g.quiet {
		g.note("warning: overrides cannot be read, and do not apply: %s", message(err))
	}
}

// overridesOf reads the overrides that are in force in a store. With an error there is a
// list, too: of those that could be read.
func (g *globalOptions) overridesOf(ctx context.Context, store limiter.Store) (*limiter.OverrideList, error) {
	table, has := limiter.OverrideTableOf(store)
	if !has {
		return limiter.NewOverrideList(nil), nil
	}
	ctx, cancel := limiter.BudgetContext(ctx, g.timeout)
	defer cancel()
	overrides, _, err := table.Overrides(ctx)
	return limiter.NewOverrideList(overrides), err
}

// overrideMark marks keys that an operator's override applies to, which is named below the
// table.
const overrideMark = "⚑"
