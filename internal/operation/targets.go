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

// targets are the keys that a reset is about, and what became of them.
type targets struct {
	ResetResult
	dryRun  bool           // they are only counted
	backup  *backupFile    // holds them, so that there may be any number
	held    backup.Batch   // holds them if there is no backup, and those that no backup can keep
	limits  map[string]int // how many keys each limit has
	values  map[string]int // how many keys each value of By has
	last    []admin.Member // those of the entry before, if another limiter wrote it
	foreign Foreign
	// asked: the store was asked to change some keys.
	asked bool
}

// add adds a key that a scan found. With an error it is a damaged record of limitctl's own.
func (t *targets) add(e *admin.Entry, damaged error) error {
	if t.Remaining != nil {
		if err := t.Remaining.check(e); err != nil {
			return err
		}
		if e.UsedKnown() {
			t.Effect.count(e.Used, t.Remaining.adjustment(e.Key, e.Limit).Used)
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
			return err
		}
	default:
		names := e.Record.WithoutValues()
		names.Key = e.Key
		t.held.Add(names, e.Limit)
	}
	t.Matched++
	if damaged != nil {
		t.Damaged++
	}
	if len(t.Sample) < sampled {
		shown := *e
		shown.Record = e.Record.WithoutValues() // which may be large
		shown.UsedUnknown = shown.UsedUnknown || damaged != nil
		t.Sample = append(t.Sample, shown)
	}
	if t.limits == nil {
		t.limits, t.values = map[string]int{}, map[string]int{}
	}
	if value, has := AttributeOf(e.Key, t.By); has {
		t.values[value]++
	}
	if e.Layout == "" {
		t.limits[policy.LimitName(e.Key)]++
		return nil
	}
	t.limits[e.Key.Name]++
	if at, known := slices.BinarySearch(t.Layouts, e.Layout); !known {
		t.Layouts = slices.Insert(t.Layouts, at, e.Layout)
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

// Share is how many of the keys have a name: that of their limit, or the value of an attribute.
type Share struct {
	Name string
	Keys int
}

// sampled is how many keys are in a sample.
const sampled = 5

// counted returns counts of keys by names, the most first.
func counted(keys map[string]int) (counts []Share) {
	for name, n := range keys {
		counts = append(counts, Share{name, n})
	}
	slices.SortFunc(counts, func(a, b Share) int { return cmp.Or(b.Keys-a.Keys, cmp.Compare(a.Name, b.Name)) })
	return counts
}

// openIn returns the attribute in which a pattern is open: tenant of tenant:acme* and of tenant:acme:*, whose
// neighbours a slip of the pattern would reach, too. It is empty if there is none.
func openIn(subjects store.Pattern) string {
	if _, exact := subjects.Exact(); exact {
		return ""
	}
	text := subjects.String()
	parts := strings.Split(text[:max(0, strings.IndexAny(text, `*?[\`))], ":")
	if last := len(parts) - 2 - len(parts)%2; last >= 0 {
		return parts[last]
	}
	return ""
}

// AttributeOf returns the value of an attribute that a key was made of. None has the name "".
func AttributeOf(key store.Key, name string) (value string, has bool) {
	if name == "" {
		return "", false
	}
	var attributes []policy.Attribute
	if parts, isPolicys := policy.ParseKey(key); isPolicys {
		attributes = parts.Attributes
	} else {
		attributes, _ = policy.ParseSubject(key.Subject)
	}
	for _, attribute := range attributes {
		if attribute.Name == name {
			return attribute.Value, true
		}
	}
	return "", false
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
	if t.backup == nil || t.Remaining == nil {
		return stopped
	}
	return t.backup.exclude(batch.Records)
}

// question is what to ask before the targets are changed.
func (t *targets) question() string {
	keys := output.Plural(int(t.Matched), "key")
	if t.Remaining == nil {
		return "Delete " + keys
	}
	question := fmt.Sprintf("Leave %d remaining of %s", t.Remaining.Units, keys)
	if text := t.Effect.String(); text != "" {
		question += " (" + text + ")"
	}
	return question
}

// Remaining says how many units a reset leaves of each limit, instead of deleting its key.
type Remaining struct {
	Units int64
	// Configured, if set, returns the limit that the configuration has for a key. Where it
	// has none, the limit counts by which the key was charged last.
	Configured func(store.Key) (store.Limit, bool)
	// Overrides are those in force; nil for none.
	Overrides *store.OverrideList
}

// Effect is what an adjustment does to keys, each of which it gives units, takes units from, or leaves as it is.
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

// String is the effect in words, such as "2 with more units, 1 as before"; empty for no keys.
func (e *Effect) String() string {
	var parts []string
	for i, keys := range []int64{e.Gain, e.Lose, e.Stay} {
		if keys > 0 {
			parts = append(parts, output.Thousands(keys)+[]string{" with more units", " with fewer units",
				" as before"}[i])
		}
	}
	return strings.Join(parts, ", ")
}

// adjustment is what is to be done to a key whose record has a limit.
func (r *Remaining) adjustment(key store.Key, recorded store.Limit) admin.Adjustment {
	limit := r.limitOf(key, recorded)
	return admin.Adjustment{Key: key, Limit: limit, Used: limit.Capacity() - r.Units}
}

// limitOf is the limit that applies now to a key whose record has another one, perhaps.
func (r *Remaining) limitOf(key store.Key, recorded store.Limit) store.Limit {
	limit, known := recorded, false
	if r.Configured != nil {
		if configured, has := r.Configured(key); has {
			limit, known = configured, true
		}
	}
	if r.Overrides == nil {
		return limit
	}
	o := r.Overrides.For(key)
	// the record may have what the override made of the limit already
	if o == nil || !known && o.Effect != store.OverrideLimit {
		return limit
	}
	if applied, err := o.Apply(limit).Normalize(); err == nil { // else it does not fit the limit
		return applied
	}
	return limit
}

// check returns why the units cannot be left of the limit of an entry.
func (r *Remaining) check(e *admin.Entry) error {
	limit := r.limitOf(e.Key, e.Limit)
	switch capacity := limit.Capacity(); {
	case limit.Algorithm == 0 || limit.Count <= 0 || limit.Period <= 0:
		return store.Invalidf("%d remaining cannot be set for key %q, whose limit is not known (%s); select fewer "+
			"keys, or "+
			"reset it whole", r.Units, e.StoreKey, e.LimitText())
	case r.Units > capacity:
		return store.Invalidf("%d remaining is more than limit %s of key %q holds; give at most %d, or select fewer "+
			"keys",
			r.Units, limit, e.StoreKey, capacity)
	}
	return nil
}
