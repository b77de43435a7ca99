package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
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
	keys := output.Count(int(t.Matched), "key")
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

// Selection is which keys an operation is about.
type Selection struct {
	Query admin.Query
	// Keep, if set, says which of the states that the query finds are selected.
	Keep func(*admin.Entry) bool
	// Names, if not nil, are the names under which the query's one subject may have keys. In a store of many keys only
	// these are looked for, and those of limits that were denied, if there are any. A reset does not use them.
	Names []string
	// Damaged selects damaged records of limitctl's own, too.
	Damaged bool
	// Text is the selection in words, for people.
	Text string
	// OfPolicy: it selects by a policy, and so only limitctl's own keys.
	OfPolicy bool
}

// Likely returns the keys that are known without a look: those of a policy, or of one subject, which can have others.
func (s *Selection) Likely() []store.Key {
	keys := s.Query.Keys
	if subject, exact := s.Query.Subjects.Exact(); exact && keys == nil {
		for _, name := range slices.Concat(s.Names, []string{"*"}) {
			keys = append(keys, store.Key{Subject: subject, Name: name})
		}
	}
	return keys
}

// Found is what a scan came to.
type Found struct {
	// Matched is how many keys were selected, foreign values aside.
	Matched int64
	// Looked is how many keys were looked at, of about Total.
	Looked, Total int64
	Foreign       Foreign
	// Unsure are keys that may be of a limiter, and were left out.
	Unsure Unsure
}

// manyKeys is from how many selected keys on a scan is careful with memory.
const manyKeys = 1_000_000

// Scan calls do with each selected key; a damaged record comes with its error. An error of do ends the scan.
func Scan(ctx context.Context, backend admin.Keyspace, s *Selection, observer Observer,
	do func(e *admin.Entry, foreign error) error) (found Found, err error) {
	progress := observer.Begin("scanning", "matched")
	defer progress.Close()
	found.Unsure.First = []UnsureKey{} // a list in JSON, also if empty
	query := s.Query
	query.Progress = func(looked, total int64) {
		found.Looked, found.Total = looked, total
		progress.Set(looked, total, found.Matched)
	}
	for entry, err := range s.Entries(ctx, backend, query) {
		var unsure *layouts.UnsureError
		switch {
		case errors.As(err, &unsure):
			found.Unsure.add(unsure)
			err = nil
		case s.Damaged && isDamaged(err) && (s.Keep == nil || s.Keep(&entry)):
			found.Matched++
			err = do(&entry, err)
		case errors.Is(err, store.ErrForeign):
			found.Foreign.add(err)
			err = nil
		case err == nil && (s.Keep == nil || s.Keep(&entry)):
			// The scan of a Cluster remembers the keys it has seen. With many keys that is
			// large, and garbage must not double it.
			if found.Matched++; found.Matched == manyKeys {
				defer sys.CollectOften()()
			}
			err = do(&entry, nil)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// WithProgress says of an error of the scan how far it had come.
func (f *Found) WithProgress(err error) error {
	if err == nil || f.Looked == 0 {
		return err
	}
	return outcome.WithProgress(err, "%s of about %s looked at, %s matched", output.Thousands(f.Looked),
		output.Count(f.Total, "key"), output.Thousands(f.Matched))
}

// nothingChanged says of the error of a scan that nothing was done after it.
func nothingChanged(found *Found, err error) error {
	if found.Looked == 0 {
		return outcome.WithProgress(err, "nothing was changed")
	}
	return outcome.WithProgress(err, "%s of about %s looked at, nothing was changed", output.Thousands(found.Looked),
		output.Count(found.Total, "key"))
}

const (
	// scannedWhole is the most keys that a store can have to be scanned for one subject at once. Redis has no index of
	// the keys of a subject.
	scannedWhole = 100_000
	// namesDenied is how long ago a name can have been denied to be known.
	namesDenied = time.Hour
)

// Entries yields what a scan of a query finds, which is that of the selection but for what it asks for. In a store of
// many keys, one subject is looked for under the names of limits that are known, and scanned for if nothing is there.
func (s *Selection) Entries(ctx context.Context, backend admin.Keyspace, query admin.Query) iter.Seq2[admin.Entry,
	error] {
	if s.Names == nil {
		return backend.Scan(ctx, query)
	}
	return func(yield func(admin.Entry, error) bool) {
		counting, enough := context.WithCancel(ctx)
		defer enough()
		many, found := false, false
		counted := query
		counted.Progress = func(looked, total int64) {
			if query.Report(looked, total); looked == 0 && total > scannedWhole {
				many = true
				enough()
			}
		}
		for entry, err := range backend.Scan(counting, counted) {
			if many && ctx.Err() == nil {
				break
			}
			if !yield(entry, err) {
				return
			}
		}
		if !many || ctx.Err() != nil {
			return
		}
		byName := query
		if byName.Keys = s.keysByName(ctx, backend, &query); len(byName.Keys) > 0 {
			for entry, err := range backend.Scan(ctx, byName) {
				if found = true; !yield(entry, err) {
					return
				}
			}
		}
		if found {
			return
		}
		for entry, err := range backend.Scan(ctx, query) {
			if !yield(entry, err) {
				return
			}
		}
	}
}

// keysByName returns the keys of the subject under the names of the selection, and under those that were denied to
// anybody.
func (s *Selection) keysByName(ctx context.Context, backend admin.Keyspace, query *admin.Query) (keys []store.Key) {
	subject, _ := query.Subjects.Exact()
	has := map[string]bool{}
	add := func(name string) {
		key := store.Key{Subject: subject, Name: name}
		if !has[name] && query.Selects(key) && key.Validate() == nil {
			has[name] = true
			keys = append(keys, key)
		}
	}
	for _, name := range s.Names {
		add(name)
	}
	if table, has := admin.TablesOf(backend); has {
		denials, _ := table.Denials(ctx, namesDenied) // without the right to it, the other names are enough
		for i := range denials.Rows {
			add(denials.Rows[i].Key.Name)
		}
	}
	return keys
}
