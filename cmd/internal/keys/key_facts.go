package keys

import (
	"context"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// inspectRow is a key that inspect shows, and what is known of it besides its state.
type inspectRow struct {
	entry  admin.Entry
	holds  string // what a foreign value is
	denied int64  // denials of the last operation.DeniedLately
	// limit is the one of the configuration, or the recorded one, before the override if there is one.
	limit store.Limit
	// configured is what the configuration says is allowed, if the key was charged under another limit.
	configured store.Limit
	// override is the operator's override that applies to the key, or nil.
	override *store.Override
}

// HasDrifted reports whether the configuration has another limit than the key.
func (r *inspectRow) hasDrifted() bool { return r.configured != (store.Limit{}) }

// keyFacts are what is known of keys besides their state: how often they were denied, and
// what the configuration allows them.
type keyFacts struct {
	// counted: the store could say who was denied. exact: no count is more than is told.
	counted, exact bool
	denials        []admin.Denied
	denied         map[store.Key]int64
	limits         cli.ConfiguredLimits
	overrides      *store.OverrideList
}

// keyFacts reads what is known of keys. needed says that the denials have to be known.
func (o *inspectOptions) keyFacts(ctx context.Context, backend store.Store, needed bool) (*keyFacts, error) {
	f := &keyFacts{denied: map[store.Key]int64{}}
	if o.Layouts != nil { // what is known of limitctl's own keys says nothing of others
		if needed {
			return f, store.Invalidf("nothing counts who is denied by other limiters")
		}
		return f, nil
	}
	if c, err := o.Config(); err == nil {
		f.limits = cli.NewConfiguredLimits(c)
	}
	f.overrides, o.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	table, has := admin.DenialTableOf(backend)
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
	recorded := recordedLimit(e)
	limit, _ := f.limits.Of(e.Key, recorded, row.override)
	if row.override != nil {
		row.limit = limit
	}
	if e.LimitKnown() && f.limits.HasDrifted(e.Key, recorded, row.override) {
		row.configured = limit
	}
	return row
}

// recordedLimit is the limit that a key was last charged under.
func recordedLimit(e *admin.Entry) store.Limit {
	if e.Recorded != (store.Limit{}) {
		return e.Recorded
	}
	return e.Limit
}

// overrideOf returns the operator's override that applies to a key, or nil.
func (f *keyFacts) overrideOf(key store.Key) *store.Override {
	if f.overrides == nil {
		return nil
	}
	return f.overrides.For(key)
}

// selecting returns a selection whose entries tell what the limits and the overrides in force leave.
func (f *keyFacts) selecting(s *operation.Selection) *operation.Selection {
	own := *s
	own.Query.InForce = func(e *admin.Entry) store.Limit { return f.limits.InForce(e, f.overrideOf(e.Key)) }
	own.Keep = func(e *admin.Entry) bool {
		if o := f.overrideOf(e.Key); o != nil {
			allowance.Block(e, o, o.Left)
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

// selects reports whether a query is of a key.
func selects(query *admin.Query, key store.Key) bool {
	if query.Keys == nil {
		return query.Selects(key)
	}
	for _, one := range query.Keys {
		if one == key {
			return true
		}
	}
	return false
}
