package live

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Overrides are the overrides that are in force.
type Overrides struct {
	table    *admin.Tables // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	read     bool                // they were, and this is what was found:
	version  string              // of the table, when it was read
	ends     time.Time           // when the first of them ends; zero if there are none
	List     *store.OverrideList // nil if there are none, or they are not known
	Problem  error               // why they are not
}

// Kept reports whether the store keeps overrides.
func (o *Overrides) Kept() bool { return o.table != nil }

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

type overridesLook struct {
	all     []store.Override
	version string
	changed bool // they were read
	took    time.Duration
	err     error
}

// look reads the overrides if their version says that they changed, or if one has ended.
func (o *Overrides) look(ctx context.Context, options *Options) tea.Cmd {
	if o.table == nil || o.fetching {
		return nil
	}
	o.fetching = true
	before := *o
	return func() tea.Msg {
		begun := options.Now()
		ctx, done := options.bounded(ctx)
		defer done()
		var l overridesLook
		version, err := before.table.OverrideVersion(ctx)
		ended := !before.ends.IsZero() && !begun.Before(before.ends)
		if l.changed = !before.read || ended || version != before.version; err == nil && l.changed {
			l.all, l.version, err = before.table.Overrides(ctx)
		}
		if !errors.Is(err, store.ErrForeign) { // those that can be read are there all the same
			l.err = err
		}
		l.took = options.Now().Sub(begun)
		return l
	}
}

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *Overrides) take(l overridesLook) (changed bool) {
	o.fetching, o.looked, o.Problem = false, true, l.err
	if l.err != nil || !l.changed {
		return false
	}
	changed = o.List != nil || len(l.all) > 0
	o.read, o.version, o.ends, o.List = true, l.version, time.Time{}, nil
	if len(l.all) > 0 {
		o.List = store.NewOverrideList(l.all)
		o.ends = slices.MinFunc(l.all, func(a, b store.Override) int {
			return a.ExpiresAt.Compare(b.ExpiresAt)
		}).ExpiresAt
	}
	return changed
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
	if f.InForce == nil {
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
