package cmd

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// inspectedDenials is of how long inspect shows denials.
const inspectedDenials = 10 * time.Minute

// inspectRow is a key that inspect shows, and what is known of it besides its state.
type inspectRow struct {
	entry  limiter.Entry
	holds  string // what a foreign value is
	denied int64  // denials of the last inspectedDenials
	// configured is what the configuration says is allowed, if that is not the entry's limit.
	configured limiter.Limit
}

// hasDrifted reports whether the configuration has another limit than the key.
func (r *inspectRow) hasDrifted() bool { return r.configured != (limiter.Limit{}) }

// keyFacts are what is known of keys besides their state: how often they were denied, and
// what the configuration allows them.
type keyFacts struct {
	// counted: the store could say who was denied. exact: no count is more than is told.
	counted, exact bool
	denials        []limiter.Denied
	denied         map[limiter.Key]int64
	limits         map[[2]string]*policy.Limit // of the configuration, by policy and name
}

// keyFacts reads what is known of keys. needed says that the denials have to be known.
func (o *inspectOptions) keyFacts(ctx context.Context, store limiter.Store, needed bool) (*keyFacts, error) {
	f := &keyFacts{denied: map[limiter.Key]int64{}, limits: map[[2]string]*policy.Limit{}}
	if c, err := o.config(); err == nil {
		f.addLimits(c)
	}
	table, has := limiter.DenialTableOf(store)
	if !has {
		if needed {
			return f, limiter.Invalidf("this store keeps no denials")
		}
		return f, nil
	}
	ctx, cancel := limiter.BudgetContext(ctx, o.timeout)
	defer cancel()
	denials, err := table.Denials(ctx, inspectedDenials)
	if err != nil { // such as a user without the right to read them
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

func (f *keyFacts) addLimits(c *config.Config) {
	for _, p := range c.Policies {
		for i := range p.Limits {
			f.limits[[2]string{p.Name, p.Limits[i].Name}] = &p.Limits[i]
		}
	}
}

// row returns what inspect shows of a key.
func (f *keyFacts) row(e *limiter.Entry, foreign error) inspectRow {
	row := inspectRow{entry: *e, holds: foreignText(foreign)}
	if len(f.denied) > 0 {
		row.denied = f.deniedOf(e.Key)
	}
	if len(f.limits) > 0 && e.LimitKnown() {
		row.configured = f.configured(e)
	}
	return row
}

// deniedOf returns how often a key was denied.
func (f *keyFacts) deniedOf(key limiter.Key) int64 {
	return f.denied[shortenedKey(key)]
}

// shortenedKey is the key that the table of denials has for a key.
func shortenedKey(key limiter.Key) limiter.Key {
	if len(key.Subject) <= limiter.MaxDenialText && len(key.Name) <= limiter.MaxDenialText {
		return key
	}
	shortened := limiter.Denied{Key: key}
	shortened.Shorten()
	return shortened.Key
}

// configured returns the limit that the configuration has for a key, if that is not the
// key's. Where it depends on attributes that are not part of the key, any of the limits
// that may count is taken for right.
func (f *keyFacts) configured(e *limiter.Entry) limiter.Limit {
	parts, isPolicys := policy.ParseKey(e.Key)
	if !isPolicys {
		return limiter.Limit{}
	}
	l := f.limits[[2]string{parts.Policy, parts.Limit}]
	if l == nil {
		return limiter.Limit{}
	}
	candidates := l.Candidates(attributesOf(parts.Attributes))
	for _, candidate := range candidates {
		if limit, err := candidate.Limit.Normalize(); err == nil && limit == e.Limit {
			return limiter.Limit{}
		}
	}
	limit, err := candidates[len(candidates)-1].Limit.Normalize()
	if err != nil {
		return limiter.Limit{}
	}
	return limit
}

// attributesOf returns the attributes of a key as a map.
func attributesOf(list []policy.Attribute) policy.Attributes {
	attributes := make(policy.Attributes, len(list))
	for _, attribute := range list {
		attributes[attribute.Name] = attribute.Value
	}
	return attributes
}

// selects reports whether a query is of a key.
func selects(query *limiter.Query, key limiter.Key) bool {
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
