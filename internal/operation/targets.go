package operation

import (
	"cmp"
	"slices"

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
