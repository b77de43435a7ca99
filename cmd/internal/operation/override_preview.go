package operation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Change is how an override changes what a key is allowed.
type Change uint8

// The changes. One limit is looser than another if it allows no less over time and no less
// at once, and more of one of them; a block is the tightest and an exemption the loosest.
const (
	Unchanged Change = iota
	Loosened
	Tightened
	// Mixed: more over time and less at once, or the other way round.
	Mixed
	// Unknown: the limit of the key is not known.
	Unknown
	changes // how many there are
)

// Concerned is what an override would change for the keys that are in use.
type Concerned struct {
	// Keys is how many the override is about.
	Keys int64
	// Counts is how many of them are changed in which way.
	Counts [changes]int64
	// Examples are a few of them, changed ones first.
	Examples []ChangedKey
	// Winning are the overrides in force that apply instead, and to how many of the keys.
	Winning []WinningOverride
	// Incomplete is why not all keys could be looked at, nil if all were.
	Incomplete error
	// Cut: the time to look was over before all keys were looked at. Looked is how many were, and Total
	// about how many there are.
	Cut           bool
	Looked, Total int64
	// Denied is how many keys of those that were denied lately the override is about, and DeniedOf how many
	// these are, as far as they are known. See [DeniedLately].
	Denied, DeniedOf int
}

// DeniedLately is how long ago a key was denied at most to be called denied lately.
const DeniedLately = 10 * time.Minute

// ChangedKey is a key with what applies to it now, and what would then.
type ChangedKey struct {
	Key       store.Key
	StoreKey  string
	Now, Then Rule
	Change    Change
	// Written is its limit without overrides, zero if it is not known.
	Written store.Limit
}

// Rule is what a key is decided by: a limit, or an override that blocks or exempts it.
type Rule struct {
	// Limit is zero if it is not known.
	Limit store.Limit
	// Override is the one that applies, nil if none does.
	Override *store.Override
}

// WinningOverride is an override that applies in place of another one.
type WinningOverride struct {
	Override *store.Override
	Keys     int64
}

// PreviewPlan says what to find out of an override that is not set yet.
type PreviewPlan struct {
	Override store.Override
	// Selection finds the keys in use that it may be about.
	Selection Selection
	// Configured, if set, returns the limit that the configuration has for a key. Where it
	// has none, the limit of the key's last charge counts.
	Configured func(store.Key) (store.Limit, bool)
	// Most, if above 0, is how long the keys are looked at. Named are keys that it may be about; they are looked at first,
	// with those denied lately, since that time can be too short for a scan to come across them.
	Most  time.Duration
	Named []store.Key
}

// PreviewOverride finds out what an override would change. It changes nothing.
func (r *Runner) PreviewOverride(ctx context.Context, plan *PreviewPlan, observer Observer) (*Concerned, error) {
	inForce, err := r.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) {
		return nil, err
	}
	candidate := plan.Override
	candidate.CreatedAt = time.Unix(1<<40, 0) // the newest
	p := &preview{
		candidate:  &candidate,
		configured: plan.Configured,
		now:        store.NewOverrideList(inForce),
		then:       store.NewOverrideList(append(slices.Clone(inForce), candidate)),
		winning:    map[string]*WinningOverride{},
	}
	looking := ctx
	if plan.Most > 0 {
		var cancel context.CancelFunc
		looking, cancel = context.WithTimeout(ctx, plan.Most)
		defer cancel()
	}
	named := p.denied(looking, r.Store)
	if query := &plan.Selection.Query; plan.Most > 0 && query.Keys == nil && plan.Selection.Names == nil {
		p.addNamed(looking, r.Store, append(named, plan.Named...))
	}
	found, err := Scan(looking, r.Store, &plan.Selection, observer, p.add)
	p.Looked, p.Total = found.Looked, found.Total
	switch {
	case err != nil && found.Looked > 0 && ctx.Err() == nil && looking.Err() != nil:
		p.Cut = true
	case err != nil && (ctx.Err() != nil || found.Looked == 0):
		return nil, found.WithProgress(err)
	default:
		p.Incomplete = found.WithProgress(err)
	}
	return p.concerned(), nil
}

// denied counts the keys that were denied lately, and returns those that the override is about. A store that cannot say
// so has none.
func (p *preview) denied(ctx context.Context, backend store.Store) (named []store.Key) {
	table, has := admin.DenialTableOf(backend)
	if !has {
		return nil
	}
	denials, _ := table.Denials(ctx, DeniedLately) // an incomplete answer has those of the other masters
	p.DeniedOf = len(denials.Rows)
	for i := range denials.Rows {
		if key := denials.Rows[i].Key; p.candidate.Matches(key) {
			named = append(named, key)
		}
	}
	p.Denied = len(named)
	return named
}

// addNamed adds those of some keys that are in use. The scan reports what goes wrong.
func (p *preview) addNamed(ctx context.Context, backend admin.Keyspace, keys []store.Key) {
	if len(keys) == 0 {
		return
	}
	seen := map[store.Key]bool{}
	for entry, err := range backend.Scan(ctx, admin.Query{Keys: keys}) {
		if err == nil && !seen[entry.Key] {
			seen[entry.Key] = true
			_ = p.add(&entry, nil) // it never fails
		}
	}
	p.seen = seen
}

// preview counts the keys that a scan finds.
type preview struct {
	Concerned
	candidate  *store.Override
	configured func(store.Key) (store.Limit, bool)
	now, then  *store.OverrideList
	winning    map[string]*WinningOverride
	unchanged  []ChangedKey       // examples of last resort
	seen       map[store.Key]bool // those of the named keys that were added
}

// add adds a key.
func (p *preview) add(e *admin.Entry, _ error) error {
	if p.seen[e.Key] || !p.candidate.Matches(e.Key) {
		return nil
	}
	p.Keys++
	key := ChangedKey{Key: e.Key, StoreKey: e.StoreKey}
	was, wins := p.now.For(e.Key), p.then.For(e.Key)
	written, known := p.written(e, was)
	key.Now, key.Then = ruleOf(was, written, known), ruleOf(wins, written, known)
	if was != nil && !known && e.LimitKnown() { // the record tells at least what applies now
		key.Now.Limit = e.Limit
	}
	if known {
		key.Written = written
	}
	key.Change = changeOf(key.Now, key.Then)
	p.Counts[key.Change]++
	if wins.ID != p.candidate.ID {
		if p.winning[wins.ID] == nil {
			p.winning[wins.ID] = &WinningOverride{Override: wins}
		}
		p.winning[wins.ID].Keys++
	}
	switch {
	case key.Change == Unchanged && len(p.unchanged) < sampled:
		p.unchanged = append(p.unchanged, key)
	case key.Change != Unchanged && len(p.Examples) < sampled:
		p.Examples = append(p.Examples, key)
	}
	return nil
}

// written returns the limit of a key without overrides: the configured one, else the one
// that the key was charged by last, if no override made it.
func (p *preview) written(e *admin.Entry, was *store.Override) (limit store.Limit, known bool) {
	if p.configured != nil {
		if limit, known = p.configured(e.Key); known {
			return limit, true
		}
	}
	if !e.LimitKnown() {
		return limit, false
	}
	if was == nil {
		return e.Limit, true
	}
	limit = e.Limit
	switch was.Effect {
	case store.OverrideLimit:
		// Charged by the override's limit, or by one that is written the same.
		return limit, limit != was.Apply(limit)
	case store.OverrideTimes:
		limit.Count, limit.Burst = scaled(limit.Count, was.Thousandths), scaled(limit.Burst, was.Thousandths)
	case store.OverrideAdd:
		limit.Count, limit.Burst = limit.Count-was.Units, limit.Burst-was.Units
	case store.OverrideBlock, store.OverrideExempt:
		return limit, true
	}
	if limit, err := limit.Normalize(); err == nil && was.Apply(limit) == e.Limit {
		return limit, true
	}
	return e.Limit, true // it was not charged since the override was set
}

// scaled is n thousandths less.
func scaled(n, thousandths int64) int64 { return (n*1000 + thousandths/2) / max(1, thousandths) }

// ruleOf is what applies to a key of a limit under an override, which may be nil.
func ruleOf(o *store.Override, limit store.Limit, known bool) Rule {
	rule := Rule{Override: o}
	if known || o != nil && o.Effect == store.OverrideLimit {
		rule.Limit = o.Apply(limit)
	}
	return rule
}

// rank puts a block below all limits and an exemption above.
func (r *Rule) rank() int {
	switch {
	case r.Override != nil && r.Override.Effect == store.OverrideBlock:
		return 0
	case r.Override != nil && r.Override.Effect == store.OverrideExempt:
		return 2
	}
	return 1
}

// changeOf compares what applies to a key now with what would apply then.
func changeOf(now, then Rule) Change {
	if before, after := now.rank(), then.rank(); before != after || before != 1 {
		return sign(cmp.Compare(after, before))
	}
	if now.Limit.Count == 0 || then.Limit.Count == 0 {
		return Unknown
	}
	overTime, atOnce := allowance.Compare(now.Limit, then.Limit)
	if overTime*atOnce < 0 {
		return Mixed
	}
	return sign(overTime + atOnce)
}

func sign(order int) Change {
	switch {
	case order > 0:
		return Loosened
	case order < 0:
		return Tightened
	}
	return Unchanged
}

// concerned is what was found.
func (p *preview) concerned() *Concerned {
	p.Examples = append(p.Examples, p.unchanged[:min(len(p.unchanged), sampled-len(p.Examples))]...)
	for _, winning := range p.winning {
		p.Winning = append(p.Winning, *winning)
	}
	slices.SortFunc(p.Winning, func(a, b WinningOverride) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Override.ID, b.Override.ID))
	})
	return &p.Concerned
}
