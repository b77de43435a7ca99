package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DeniedLately is how long ago a key was denied at most to be called denied lately.
const DeniedLately = 10 * time.Minute

// mostConcerned is how many different rows a preview has. Keys beyond them are counted together.
const mostConcerned = 1000

// Concerned is what an override would change for the keys that are in use, in JSON too.
type Concerned struct {
	// Keys is how many the override is about. Limits are these keys by limit and by what changes, the most first.
	Keys int64 `json:"keys"`
	// Complete: all keys were looked at. Else Incomplete says why not.
	Complete   bool             `json:"complete"`
	Limits     []ConcernedLimit `json:"limits"`
	Incomplete error            `json:"-"`
	// Denied is how many it is about of the DeniedOf keys that limits denied lately, which are known without a look.
	Denied, DeniedOf int `json:"-"`
	// First is the ID of an override that comes first, if it is about keys that are known and not in use.
	First string `json:"-"`
	// By is the attribute in which the override's pattern is open, and Values the keys by its values, the most first.
	By     string  `json:"-"`
	Values []Share `json:"-"`
}

// ConcernedLimit is what decides some keys of a limit now, and what would then: a limit, "blocked", "exempt", or "?".
type ConcernedLimit struct {
	Name string `json:"name"`
	Now  string `json:"now"`
	Then string `json:"then"`
	Keys int64  `json:"keys"`
	// Override is the ID of another override that applies instead, which comes first.
	Override string `json:"override,omitempty"`
}

var errOver = errors.New("the time was over")

// PreviewOverride finds out what an override would change. It changes nothing. If no key can be looked at, it returns
// the error.
func (r *Runner) PreviewOverride(ctx context.Context, plan *OverridePlan, observer Observer) (*Concerned, error) {
	inForce, err := r.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	candidate := plan.Override
	candidate.ID, candidate.CreatedAt = "", time.Unix(1<<40, 0) // the newest
	now, then := store.NewOverrideList(inForce), store.NewOverrideList(append(slices.Clone(inForce), candidate))
	c := &Concerned{Limits: []ConcernedLimit{}, By: openIn(candidate.Subjects)}
	rows, values := map[ConcernedLimit]int64{}, map[string]int{}
	looking := ctx
	if plan.Most > 0 {
		var cancel func()
		looking, cancel = context.WithTimeoutCause(ctx, plan.Most, errOver)
		defer cancel()
	}
	if table, has := admin.TablesOf(r.Store); has {
		within, cancel := store.BudgetContext(looking, r.Timeout)
		denials, _ := table.Denials(within, DeniedLately) // what cannot be read is not said
		cancel()
		c.DeniedOf = len(denials.Rows)
		for i := range denials.Rows {
			if candidate.Matches(denials.Rows[i].Key) {
				c.Denied++
			}
		}
	}
	found, err := Scan(looking, r.Store, &plan.Selection, observer, func(e *admin.Entry, _ error) error {
		if !candidate.Matches(e.Key) {
			return nil
		}
		c.Keys++
		if value, has := AttributeOf(e.Key, c.By); has {
			values[value]++
		}
		row := plan.row(e, now.For(e.Key), then.For(e.Key))
		if _, has := rows[row]; has || len(rows) < mostConcerned {
			rows[row]++
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		err = cmp.Or(context.Cause(looking), err)
	}
	c.Complete, c.Incomplete, c.Values = err == nil, found.WithProgress(err), counted(values)
	if err != nil && !errors.Is(err, errOver) && (ctx.Err() != nil || found.Looked == 0) {
		return nil, c.Incomplete
	}
	if c.Keys == 0 {
		c.First = hiddenBy(&candidate, plan.Selection.Likely(), then)
	}
	for row, keys := range rows {
		row.Keys = keys
		c.Limits = append(c.Limits, row)
	}
	slices.SortFunc(c.Limits, func(a, b ConcernedLimit) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Then, b.Then),
			cmp.Compare(a.Now, b.Now))
	})
	return c, nil
}

// hiddenBy returns the ID of an override that comes before the candidate for all of the keys that it is about; "" if
// there is none.
func hiddenBy(candidate *store.Override, keys []store.Key, list *store.OverrideList) (id string) {
	for _, key := range keys {
		if !candidate.Matches(key) {
			continue
		}
		if id = list.For(key).ID; id == "" {
			return ""
		}
	}
	return id
}

// row returns what decides a key under the override that applies now, which may be nil, and under the one that would.
func (p *OverridePlan) row(e *admin.Entry, was, wins *store.Override) ConcernedLimit {
	// Without overrides the limit is the configured one, else that of the last charge, if no override made it.
	limit, known := e.Limit, e.LimitKnown() && (was == nil || was.Effect == store.OverrideBlock ||
		was.Effect == store.OverrideExempt)
	if p.Configured != nil {
		if configured, has := p.Configured(e.Key); has {
			limit, known = configured, true
		}
	}
	row := ConcernedLimit{Name: e.Key.Name, Now: decides(was, limit, known), Then: decides(wins, limit, known),
		Override: wins.ID}
	if was != nil && !known && e.LimitKnown() { // the record has at least what applies now
		row.Now = e.Limit.String()
	}
	return row
}

// decides is what decides a key of a limit under an override, which may be nil.
func decides(o *store.Override, limit store.Limit, known bool) string {
	switch {
	case o == nil && !known:
		return "?"
	case o == nil:
		return limit.String()
	case o.Effect == store.OverrideBlock:
		return "blocked"
	case o.Effect == store.OverrideExempt:
		return "exempt"
	case known || o.Effect == store.OverrideLimit:
		return o.Apply(limit).String()
	}
	return allowance.Effect(o)
}
