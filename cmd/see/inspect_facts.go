package see

import (
	"context"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inspectRow is a key that inspect shows, with facts besides its state.
type inspectRow struct {
	entry  admin.Entry
	holds  string // the kind of a foreign value
	denied int64  // denials of the last operation.DeniedLately
	// limit is that of the configuration, else the recorded one, without the override.
	limit store.Limit
	// configured is the limit of the configuration, if the key was charged under another one.
	configured store.Limit
	// override is the operator's override that applies to the key, or nil.
	override *store.Override
}

// hasDrifted reports whether the configuration has another limit than the key.
func (r *inspectRow) hasDrifted() bool { return r.configured != (store.Limit{}) }

// keyFacts are facts about keys besides their state: how often they were denied, and their configured limits.
type keyFacts struct {
	// counted: the store counts denials. exact: no count is higher in truth.
	counted, exact bool
	denials        []admin.Denied
	denied         map[store.Key]int64
	limits         allowance.ConfiguredLimits
	overrides      *store.OverrideList
}

// keyFacts reads the facts about keys. With needed, it fails if the denials are unknown.
func (o *inspectOptions) keyFacts(ctx context.Context, backend store.Store, needed bool) (*keyFacts, error) {
	f := &keyFacts{denied: map[store.Key]int64{}}
	if o.Layouts != nil { // facts about limitctl's own keys do not apply to others
		if needed {
			return f, store.Invalidf("nothing counts who is denied by other limiters")
		}
		return f, nil
	}
	if c, err := o.Config(); err == nil {
		f.limits = allowance.NewConfiguredLimits(c.Policies)
	}
	f.overrides, o.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	table, has := admin.TablesOf(backend)
	if !has {
		if needed {
			return f, store.Invalidf("this store keeps no denials")
		}
		return f, nil
	}
	denials, err := table.Denials(ctx, operation.DeniedLately)
	if err != nil && !cli.IsPartial(err) { // such as a user without the right to read them
		if needed {
			return f, err
		}
		return f, nil
	}
	f.counted, f.exact, f.denials = true, denials.Exact(), denials.Rows
	for _, row := range denials.Rows {
		f.denied[row.Key] = row.Count
	}
	return f, nil
}

// row returns what inspect shows of a key.
func (f *keyFacts) row(e *admin.Entry, foreign error) inspectRow {
	row := inspectRow{entry: *e, holds: foreignText(foreign)}
	if len(f.denied) > 0 {
		row.denied = f.deniedOf(e.Key)
	}
	if foreign == nil {
		row.override = f.overrideOf(e.Key)
	}
	if row.override == nil && e.Recorded == (store.Limit{}) {
		return row // it was charged under the limit that is in force
	}
	recorded := e.LastLimit()
	limit, _ := f.limits.Of(e.Key, recorded, row.override)
	if row.override != nil {
		row.limit = limit
	}
	if e.LimitKnown() && f.limits.HasDrifted(e.Key, recorded, row.override) {
		row.configured = limit
	}
	return row
}

// overrideOf returns the operator's override that applies to a key, or nil.
func (f *keyFacts) overrideOf(key store.Key) *store.Override {
	if f.overrides == nil {
		return nil
	}
	return f.overrides.For(key)
}

// selecting returns a selection whose entries are judged by the limits and overrides in force.
func (f *keyFacts) selecting(s *operation.Selection) *operation.Selection {
	own := *s
	own.Query.InForce = func(e *admin.Entry) store.Limit { return f.limits.InForce(e, f.overrideOf(e.Key)) }
	own.Keep = func(e *admin.Entry) bool {
		if o := f.overrideOf(e.Key); o != nil {
			allowance.Block(e, f.overrides, o, o.Left)
		}
		return s.Keep == nil || s.Keep(e)
	}
	return &own
}

// deniedOf returns how often a key was denied.
func (f *keyFacts) deniedOf(key store.Key) int64 {
	return f.denied[shortenedKey(key)]
}

// shortenedKey is the key that the table of denials has for a key.
func shortenedKey(key store.Key) store.Key {
	if len(key.Subject) <= admin.MaxDenialText && len(key.Name) <= admin.MaxDenialText {
		return key
	}
	shortened := admin.Denied{Key: key}
	shortened.Shorten()
	return shortened.Key
}
