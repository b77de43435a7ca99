package dash

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/overridetext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// overrides are the overrides that are in force.
type overrides struct {
	reader   *overrideReader // nil if the store keeps none
	fetching bool
	looked   bool                // the first look is over
	list     *store.OverrideList // nil if there are none, or they are not known
	problem  error
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
	list *store.OverrideList
	took time.Duration
	err  error
}

// overridesDue: the overrides are to be looked at again.
type overridesDue struct{}

// overridesEvery is the least time between two looks. A service looks as often.
const overridesEvery = time.Second

// take takes in what a look brought, and reports whether the overrides are others than before.
func (o *overrides) take(look overridesLook) (changed bool) {
	o.fetching, o.looked, o.problem = false, true, look.err
	if look.err != nil {
		return false
	}
	changed = o.list != look.list
	o.list = look.list
	return changed
}

func (r *overrideReader) look(ctx context.Context) (l overridesLook) {
	begun := r.Now()
	if r.Timeout > 0 {
		var done context.CancelFunc
		ctx, done = store.BudgetContext(ctx, r.Timeout)
		defer done()
	}
	l.err = r.refresh(ctx, begun)
	l.list, l.took = r.list, r.Now().Sub(begun)
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

// force is what counts for keys besides their records.
type force struct {
	*Options
	overrides *store.OverrideList // nil if there are none
}

// override returns the override that applies to a key, nil if there is none.
func (f force) override(key store.Key) *store.Override {
	if f.overrides == nil {
		return nil
	}
	if found := f.overrides.For(key); found != nil && f.Now().Before(found.ExpiresAt) {
		return found
	}
	return nil
}

// limit returns the limit that counts for the key of an entry, which has the recorded one.
func (f force) limit(e *admin.Entry) store.Limit {
	if f.InForce == nil || e.Layout != "" {
		return e.Limit
	}
	limit, err := f.InForce(e, f.override(e.Key)).Normalize()
	if err != nil {
		return e.Limit
	}
	return limit
}

// block makes an entry one with nothing left, if its key is blocked.
func (f force) block(e *admin.Entry) {
	if o := f.override(e.Key); o != nil {
		allowance.Block(e, o, o.ExpiresAt.Sub(f.Now()))
	}
}

// scan yields what a query finds, as the limits and the overrides in force leave it.
func (f force) scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	q.InForce = f.limit
	find := f.Store.Scan
	if f.Find != nil && q.Keys == nil {
		find = f.Find
	}
	return func(yield func(admin.Entry, error) bool) {
		for entry, err := range find(ctx, q) {
			if err == nil {
				f.block(&entry)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// isBlock reports whether an override is a block. It may be nil.
func isBlock(o *store.Override) bool { return o != nil && o.Effect == store.OverrideBlock }

// blockSign marks what is under a block.
const blockSign = "⊘"

// overrideSign marks rows under an override.
func overrideSign(o *store.Override) string {
	switch {
	case isBlock(o):
		return blockSign
	case o.Effect == store.OverrideExempt:
		return "∞"
	}
	return "±"
}

// until says when something ends, by the clock where that is less than a day away.
func until(end, now time.Time) string {
	end = end.In(now.Location())
	if end.Sub(now) < 20*time.Hour {
		return end.Format("15:04")
	}
	return end.Format("Jan 2 15:04")
}

// overrideTexts say what an override does, and until when.
func overrideTexts(o *store.Override, now time.Time) (effect, end string) {
	return overridetext.Effect(o), " until " + until(o.ExpiresAt, now)
}

// overrideText is everything about an override, in lines.
func overrideText(o *store.Override, now time.Time) []string {
	words := overridetext.Effect(o) + " until " + until(o.ExpiresAt, now) + ", in " +
		output.Duration(o.ExpiresAt.Sub(now).Truncate(time.Second))
	about := "for " + output.Printable(o.Subjects.String())
	if o.Subjects.IsZero() {
		about = "for all subjects"
	}
	for _, name := range sortedNames(o.Attributes) {
		about += " " + name + "=" + output.Printable(o.Attributes[name])
	}
	if !o.Names.IsZero() {
		about += ", limit " + output.Printable(o.Names.String())
	}
	lines := []string{words, about + " (" + output.Printable(o.ID) + ")"}
	by := "set"
	if o.By != "" {
		by += " by " + output.Printable(o.By)
	}
	if o.Reason != "" {
		by += ": " + output.Printable(o.Reason)
	}
	return append(lines, by)
}

func sortedNames(attributes map[string]string) []string { return slices.Sorted(maps.Keys(attributes)) }
