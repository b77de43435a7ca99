package live

import (
	"context"
	"errors"
	"iter"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Overrides are the overrides that are in force.
type Overrides struct {
	reader   *overrideReader // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	List     *store.OverrideList // nil if there are none, or they are not known
	Problem  error               // why they are not
}

// Kept reports whether the store keeps overrides.
func (o *Overrides) Kept() bool { return o.reader != nil }

// InForce are those that are in force at a time, those that apply first before others.
func (o *Overrides) InForce(now time.Time) (all []store.Override) {
	if o.List != nil {
		for _, override := range o.List.All() {
			if now.Before(override.ExpiresAt) {
				all = append(all, override)
			}
		}
	}
	return all
}

// look reads the overrides, unless there are none, or that is under way.
func (o *Overrides) look(ctx context.Context) tea.Cmd {
	if o.reader == nil || o.fetching {
		return nil
	}
	o.fetching = true
	return func() tea.Msg { return o.reader.Look(ctx) }
}

// Take takes in what a look brought, before the first scan.
func (o *Overrides) Take(look tea.Msg) {
	if l, is := look.(overridesLook); is {
		o.take(l)
	}
}

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *Overrides) take(look overridesLook) (changed bool) {
	o.fetching, o.looked, o.Problem = false, true, look.Err
	if look.Err != nil {
		return false
	}
	changed = o.List != look.List
	o.List = look.List
	return changed
}

// Effect is what an override does now.
type Effect struct {
	Keys   int     // that are followed and it applies to
	Denied float64 // denials a second: of these, or by a block
}

// Effects is what each override does now, by its ID.
func Effects(f *Feed) map[string]Effect {
	effects := map[string]Effect{}
	for row, known := range f.Denials.Blocks {
		e := effects[row.ID]
		e.Denied += known.PerSecond
		effects[row.ID] = e
	}
	for _, r := range f.Rows {
		o := r.Override
		if o == nil || !r.InUse && r.DeniedRate() == 0 {
			continue
		}
		e := effects[o.ID]
		e.Keys++
		if d := r.Denial; d != nil && !IsBlock(o) && (d.LastAt == 0 || d.LastAt >= store.InstantOf(o.CreatedAt)) { // else it was before
			e.Denied += r.DeniedRate()
		}
		effects[o.ID] = e
	}
	return effects
}

// overrideReader reads them when they have changed. One look at a time is under way.
type overrideReader struct {
	*Options
	read    bool // they were, and this is what was found:
	version string
	list    *store.OverrideList
	ends    time.Time // when the first of them ends; zero if there are none
}

// overridesLook is what a look at the overrides brought.
type overridesLook struct {
	List *store.OverrideList
	Took time.Duration
	Err  error
}

// Look reads the overrides if they have changed.
func (r *overrideReader) Look(ctx context.Context) (l overridesLook) {
	begun := r.Now()
	if r.Timeout > 0 {
		var done context.CancelFunc
		ctx, done = store.BudgetContext(ctx, r.Timeout)
		defer done()
	}
	l.Err = r.refresh(ctx, begun)
	l.List, l.Took = r.list, r.Now().Sub(begun)
	return l
}

// refresh reads the overrides if the version says that they changed, or if one has ended.
func (r *overrideReader) refresh(ctx context.Context, now time.Time) error {
	version, err := r.Overrides.OverrideVersion(ctx)
	if err != nil {
		return err
	}
	if r.read && version == r.version && (r.ends.IsZero() || now.Before(r.ends)) {
		return nil
	}
	all, version, err := r.Overrides.Overrides(ctx)
	if err != nil && !errors.Is(err, store.ErrForeign) { // those that can be read are there all the same
		return err
	}
	r.read, r.version, r.list, r.ends = true, version, nil, time.Time{}
	for i := range all {
		if r.ends.IsZero() || all[i].ExpiresAt.Before(r.ends) {
			r.ends = all[i].ExpiresAt
		}
	}
	if len(all) > 0 {
		r.list = store.NewOverrideList(all)
	}
	return nil
}

// rules are what counts for keys besides their records.
type rules struct {
	*Options
	// List are the overrides in force; nil if there are none.
	List *store.OverrideList
}

// Override returns the override that applies to a key, nil if there is none.
func (f rules) Override(key store.Key) *store.Override {
	if f.List == nil {
		return nil
	}
	if found := f.List.For(key); found != nil && f.Now().Before(found.ExpiresAt) {
		return found
	}
	return nil
}

// Limit returns the limit that counts for the key of an entry, which has the recorded one.
func (f rules) Limit(e *admin.Entry) store.Limit {
	if f.InForce == nil || e.Layout != "" {
		return e.Limit
	}
	limit, err := f.InForce(e, f.Override(e.Key)).Normalize()
	if err != nil {
		return e.Limit
	}
	return limit
}

// Block makes an entry one with nothing left, if its key is blocked.
func (f rules) Block(e *admin.Entry) {
	if o := f.Override(e.Key); o != nil {
		allowance.Block(e, f.List, o, o.ExpiresAt.Sub(f.Now()))
	}
}

// scan yields what a query finds, as the limits and the overrides in force leave it.
func (f rules) scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	q.InForce = f.Limit
	find := f.Store.Scan
	if f.Find != nil && q.Keys == nil {
		find = f.Find
	}
	return func(yield func(admin.Entry, error) bool) {
		for entry, err := range find(ctx, q) {
			if err == nil {
				f.Block(&entry)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// IsBlock reports whether an override is a block. It may be nil.
func IsBlock(o *store.Override) bool { return o != nil && o.Effect == store.OverrideBlock }
