package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DeniedLately is how long ago a key was denied at most to be called denied lately.
const DeniedLately = 10 * time.Minute

// mostConcerned is how many different rows a preview has. Keys beyond them are counted together.
const mostConcerned = 1000

// Concerned is what an override would change for the keys that are in use.
type Concerned struct {
	// Keys is how many the override is about. Limits are these keys by limit and by what changes, the most first.
	Keys   int64
	Limits []ConcernedLimit
	// By is the attribute in which the override's pattern is open, and Values the keys by its values, the most first. They
	// are empty if there are not several.
	By     string
	Values []Share
	// Incomplete is why not all keys could be looked at, nil if all were. With Cut it is that the time was over: Looked is
	// how many were, and Total about how many there are.
	Incomplete    error
	Cut           bool
	Looked, Total int64
}

// ConcernedLimit is what applies to some keys of a limit now, and what would then.
type ConcernedLimit struct {
	Name      string
	Now, Then Rule
	Keys      int64
}

// Rule is what a key is decided by: a limit, or an override that blocks or exempts it.
type Rule struct {
	// Limit is zero if it is not known.
	Limit store.Limit
	// Override is the one that applies, nil if none does. The one that is not set yet has no ID.
	Override *store.Override
}

// PreviewPlan says what to find out of an override that is not set yet.
type PreviewPlan struct {
	Override store.Override
	// Selection finds the keys in use that it may be about.
	Selection Selection
	// Configured, if set, returns the limit that the configuration has for a key. Where it
	// has none, the limit of the key's last charge counts.
	Configured func(store.Key) (store.Limit, bool)
	// Most, if above 0, is how long the keys are looked at.
	Most time.Duration
}

// PreviewOverride finds out what an override would change. It changes nothing. If no key can be looked at, it returns the error.
func (r *Runner) PreviewOverride(ctx context.Context, plan *PreviewPlan, observer Observer) (*Concerned, error) {
	inForce, err := r.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	candidate := plan.Override
	candidate.ID, candidate.CreatedAt = "", time.Unix(1<<40, 0) // the newest
	p := &preview{
		candidate:  &candidate,
		configured: plan.Configured,
		now:        store.NewOverrideList(inForce),
		then:       store.NewOverrideList(append(slices.Clone(inForce), candidate)),
		limits:     map[concernedKey]*ConcernedLimit{},
		by:         openIn(candidate.Subjects),
		values:     map[string]int{},
	}
	looking := ctx
	if plan.Most > 0 {
		var cancel context.CancelFunc
		looking, cancel = context.WithTimeout(ctx, plan.Most)
		defer cancel()
	}
	found, err := Scan(looking, r.Store, &plan.Selection, observer, p.add)
	p.Looked, p.Total = found.Looked, found.Total
	switch {
	case err != nil && ctx.Err() == nil && looking.Err() != nil:
		p.Cut = true
	case err != nil && (ctx.Err() != nil || found.Looked == 0):
		p.Incomplete = found.WithProgress(err)
		return nil, p.Incomplete
	default:
		p.Incomplete = found.WithProgress(err)
	}
	if len(p.values) > 1 {
		p.By, p.Values = p.by, counted(p.values)
	}
	for _, limit := range p.limits {
		p.Limits = append(p.Limits, *limit)
	}
	slices.SortFunc(p.Limits, func(a, b ConcernedLimit) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Then.Limit.Count, b.Then.Limit.Count))
	})
	return &p.Concerned, nil
}

// preview counts the keys that a scan finds.
type preview struct {
	Concerned
	candidate  *store.Override
	configured func(store.Key) (store.Limit, bool)
	now, then  *store.OverrideList
	limits     map[concernedKey]*ConcernedLimit
	by         string // as in targets
	values     map[string]int
}

// concernedKey is what the keys of a row have in common.
type concernedKey struct {
	name      string
	now, then store.Limit
	was, wins string // the IDs of overrides
}

// add adds a key.
func (p *preview) add(e *admin.Entry, _ error) error {
	if !p.candidate.Matches(e.Key) {
		return nil
	}
	p.Keys++
	if value, has := AttributeOf(e.Key, p.by); has {
		p.values[value]++
	}
	was, wins := p.now.For(e.Key), p.then.For(e.Key)
	limit, known := p.written(e, was)
	row := ConcernedLimit{Name: e.Key.Name, Now: ruleOf(was, limit, known), Then: ruleOf(wins, limit, known)}
	if was != nil && !known && e.LimitKnown() { // the record has at least what applies now
		row.Now.Limit = e.Limit
	}
	key := concernedKey{name: row.Name, now: row.Now.Limit, then: row.Then.Limit, wins: wins.ID}
	if was != nil {
		key.was = was.ID
	}
	if p.limits[key] == nil && len(p.limits) < mostConcerned {
		p.limits[key] = &row
	}
	if p.limits[key] != nil {
		p.limits[key].Keys++
	}
	return nil
}

// written returns the limit of a key without overrides: the configured one, else that of its last charge, if no override
// made it.
func (p *preview) written(e *admin.Entry, was *store.Override) (limit store.Limit, known bool) {
	if p.configured != nil {
		if limit, known = p.configured(e.Key); known {
			return limit, true
		}
	}
	keeps := was == nil || was.Effect == store.OverrideBlock || was.Effect == store.OverrideExempt
	return e.Limit, e.LimitKnown() && keeps
}

// ruleOf is what applies to a key of a limit under an override, which may be nil.
func ruleOf(o *store.Override, limit store.Limit, known bool) Rule {
	rule := Rule{Override: o}
	if known || o != nil && o.Effect == store.OverrideLimit {
		rule.Limit = o.Apply(limit)
	}
	return rule
}
