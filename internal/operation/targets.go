package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// targets are the keys that a reset is about.
type targets struct {
	remaining *Remaining // what is to remain of each, nil to delete them
	adjuster  admin.Adjuster
	dryRun    bool // they are only counted
	count     int
	backup    *backupFile  // holds them, so that there may be any number
	held      backup.Batch // holds them if there is no backup, and those that no backup can keep
	damaged   int64        // how many are damaged records of limitctl's own, which no backup keeps
	sample    []admin.Entry
	limits    map[string]int // how many keys each limit has
	layouts   []string       // of other limiters, sorted
	last      []admin.Member // those of the entry before, if another limiter wrote it
	effect    Effect         // of an adjustment, by what the scan found
	// failed: what is asked for is impossible, or the backup cannot be written.
	failed bool
}

// add adds a key that a scan found. With an error it is a damaged record of limitctl's own.
func (t *targets) add(e *admin.Entry, damaged error) error {
	if t.remaining != nil {
		if err := t.remaining.check(e); err != nil {
			t.failed = true
			return err
		}
		if e.UsedKnown() {
			a := t.remaining.adjustment(e.Key, e.Limit)
			t.effect.count(e.Used, a.Wanted(e.Used))
		}
	}
	switch {
	case t.isLast(e):
		return nil
	case t.dryRun:
	case damaged != nil:
		t.held.Add(admin.Record{Key: e.Key}, store.Limit{})
	case t.backup != nil:
		if err := t.backup.add(e); err != nil {
			t.failed = true
			return err
		}
	default:
		names := e.Record.WithoutValues()
		names.Key = e.Key
		t.held.Add(names, e.Limit)
	}
	t.count++
	if damaged != nil {
		t.damaged++
	}
	if len(t.sample) < sampled {
		shown := *e
		shown.Record = e.Record.WithoutValues() // which may be large
		shown.UsedUnknown = shown.UsedUnknown || damaged != nil
		t.sample = append(t.sample, shown)
	}
	if t.limits == nil {
		t.limits = map[string]int{}
	}
	if e.Layout == "" {
		t.limits[policy.LimitName(e.Key)]++
		return nil
	}
	t.limits[e.Key.Name]++
	if at, known := slices.BinarySearch(t.layouts, e.Layout); !known {
		t.layouts = slices.Insert(t.layouts, at, e.Layout)
	}
	return nil
}

// isLast reports whether an entry is of the same store keys as the one before, and so is deleted
// with it: other limiters can have several limits in one value, which come one after the other.
func (t *targets) isLast(e *admin.Entry) bool {
	if len(e.Record.Members) == 0 {
		return false
	}
	last := t.last
	t.last = e.Record.Members
	return slices.EqualFunc(last, e.Record.Members, func(a, b admin.Member) bool {
		return a.StoreKey == b.StoreKey
	})
}

// selected is what to show of the targets.
func (t *targets) selected(incomplete error) *Selected {
	s := &Selected{Count: t.count, Sample: t.sample, Layouts: t.layouts, Remaining: t.remaining, Effect: t.effect, Incomplete: incomplete}
	for name, keys := range t.limits {
		s.Limits = append(s.Limits, LimitCount{name, keys})
	}
	slices.SortFunc(s.Limits, func(a, b LimitCount) int { return cmp.Or(b.Keys-a.Keys, cmp.Compare(a.Name, b.Name)) })
	return s
}

// each calls do with the targets, at most size at a time.
func (t *targets) each(size int, do func(backup.Batch) error) error {
	if t.backup != nil {
		if err := t.backup.each(size, do); err != nil {
			return err
		}
	}
	return t.held.Split(size, do)
}

// leave notes that a batch is left as it is, because an error has stopped the change of an
// adjustment before. It returns the error if there is nothing to note. The keys are in use, so a restore that replaces
// would put them back to what they were when they were looked for.
func (t *targets) leave(batch backup.Batch, stopped error) error {
	if t.backup == nil || t.remaining == nil {
		return stopped
	}
	return t.backup.exclude(batch.Records)
}

// question is what to ask before the targets are changed, after a scan that ended with scanErr.
func (t *targets) question(scanErr error) string {
	question := "Delete " + output.Plural(t.count, "key")
	if t.remaining != nil {
		question = t.remaining.question(t.count, &t.effect)
	}
	if scanErr == nil {
		return question
	}
	return incompleteQuestion(question, scanErr)
}

// Remaining says how many units a reset leaves of each limit, instead of deleting its key.
type Remaining struct {
	Units int64
	// AtLeast: a key that has more is left as it is.
	AtLeast bool
	// Configured, if set, returns the limit that the configuration has for a key. Where it
	// has none, the limit counts by which the key was charged last.
	Configured func(store.Key) (store.Limit, bool)
	// overrides are those in force when the reset began; nil for none.
	overrides *store.OverrideList
}

// Effect is what an adjustment does to keys, each of which it gives units, takes units from,
// or leaves as it is.
type Effect struct{ Gain, Lose, Stay int64 }

// count counts a key with so many units in use before and after.
func (e *Effect) count(before, after int64) {
	switch {
	case after < before:
		e.Gain++
	case after > before:
		e.Lose++
	default:
		e.Stay++
	}
}

// changed is how many keys become different.
func (e *Effect) changed() int64 { return e.Gain + e.Lose }

// Future is the effect in words before it is there, such as "2 gain units, 1 stays as it is".
func (e *Effect) Future() string {
	return e.text(words{"gains units", "gain units"}, words{"loses units", "lose units"}, words{"stays as it is", "stay as they are"})
}

// Past is the effect in words when it is there, such as "2 gained units, 1 stayed as it was".
func (e *Effect) Past() string {
	return e.text(words{"gained units", "gained units"}, words{"lost units", "lost units"},
		words{"stayed as it was", "stayed as they were"})
}

// words say of one key and of several what becomes of them.
type words struct{ one, several string }

func (e *Effect) text(gain, lose, stay words) string {
	var parts []string
	for _, part := range []struct {
		keys int64
		words
	}{{e.Gain, gain}, {e.Lose, lose}, {e.Stay, stay}} {
		switch part.keys {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.one)
		default:
			parts = append(parts, output.Thousands(part.keys)+" "+part.several)
		}
	}
	return strings.Join(parts, ", ")
}

// adjustment is what is to be done to a key whose record has a limit.
func (r *Remaining) adjustment(key store.Key, recorded store.Limit) admin.Adjustment {
	limit := r.limitOf(key, recorded)
	return admin.Adjustment{Key: key, Limit: limit, Used: limit.Capacity() - r.Units, OnlyLess: r.AtLeast}
}

// limitOf is the limit that applies now to a key whose record has another one, perhaps.
func (r *Remaining) limitOf(key store.Key, recorded store.Limit) store.Limit {
	limit, known := recorded, false
	if r.Configured != nil {
		if configured, has := r.Configured(key); has {
			limit, known = configured, true
		}
	}
	if r.overrides == nil {
		return limit
	}
	o := r.overrides.For(key)
	if o != nil && !known && o.Effect != store.OverrideLimit { // the record may have what the override made of the limit already
		return limit
	}
	return overridden(limit, o)
}

// overridden is what an override makes of a limit; nil leaves it unchanged, and so does one that does not fit it.
func overridden(limit store.Limit, o *store.Override) store.Limit {
	if o == nil {
		return limit
	}
	if applied, err := o.Apply(limit).Normalize(); err == nil {
		return applied
	}
	return limit
}

// check returns why the units cannot be left of the limit of an entry.
func (r *Remaining) check(e *admin.Entry) error {
	limit := r.limitOf(e.Key, e.Limit)
	switch capacity := limit.Capacity(); {
	case limit.Algorithm == 0 || limit.Count <= 0 || limit.Period <= 0:
		return store.Invalidf("%d remaining cannot be set for key %q, whose limit is not known (%s); select fewer keys, or "+
			"reset it whole", r.Units, e.StoreKey, e.LimitText())
	case r.Units > capacity:
		return store.Invalidf("%d remaining is more than limit %s of key %q holds; give at most %d, or select fewer keys",
			r.Units, limit, e.StoreKey, capacity)
	}
	return nil
}

// question is what to ask before so many keys are adjusted.
func (r *Remaining) question(keys int, effect *Effect) string {
	least := ""
	if r.AtLeast {
		least = "at least "
	}
	question := fmt.Sprintf("Leave %s%d remaining of %s", least, r.Units, output.Plural(keys, "key"))
	if text := effect.Future(); text != "" {
		question += " (" + text + ")"
	}
	return question
}
