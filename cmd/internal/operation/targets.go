package operation

import (
	"cmp"
	"slices"

	"github.com/limitctl/limitctl/cmd/internal/backup"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Selected is what a reset is about to change.
type Selected struct {
	// Count is how many keys.
	Count int
	// Sample is the first few of them.
	Sample []limiter.Entry
	// Limits is how they divide into limits, those with most keys first, so that one
	// sees at once if a selection goes too far.
	Limits []LimitCount
	// Incomplete is why not all keys could be looked at, nil if all were.
	Incomplete error
}

// LimitCount is how many keys a limit has.
type LimitCount struct {
	Name string // as [policy.LimitName] has it
	Keys int
}

// sampled is how many keys are in a sample.
const sampled = 5

// targets are the keys that a reset is about.
type targets struct {
	remaining *int64 // what is to remain of each, nil to delete them
	dryRun    bool   // they are only counted
	count     int
	backup    *backupFile  // holds them, so that there may be any number
	held      backup.Batch // holds them if there is no backup
	sample    []limiter.Entry
	limits    map[string]int // how many keys each limit has
	// failed: what is asked for is impossible, or the backup cannot be written.
	failed bool
}

// add adds a key that a scan found.
func (t *targets) add(e *limiter.Entry, _ error) error {
	if t.remaining != nil && !e.LimitKnown() {
		t.failed = true
		return limiter.Invalidf("%d remaining cannot be set for key %q, whose limit is not known (%s); select fewer keys, or reset it whole",
			*t.remaining, e.StoreKey, e.LimitText())
	}
	if capacity := e.Limit.Capacity(); t.remaining != nil && *t.remaining > capacity {
		t.failed = true
		return limiter.Invalidf("%d remaining is more than limit %s of key %q holds; give at most %d, or select fewer keys",
			*t.remaining, e.Limit, e.StoreKey, capacity)
	}
	switch {
	case t.dryRun:
	case t.backup != nil:
		if err := t.backup.add(e.Record); err != nil {
			t.failed = true
			return err
		}
	default:
		t.held.Add(limiter.Record{Key: e.Key}, e.Limit)
	}
	t.count++
	if len(t.sample) < sampled {
		shown := *e
		shown.Record = limiter.Record{} // which may be large
		t.sample = append(t.sample, shown)
	}
	if t.limits == nil {
		t.limits = map[string]int{}
	}
	t.limits[policy.LimitName(e.Key)]++
	return nil
}

// selected is what to show of the targets.
func (t *targets) selected(incomplete error) *Selected {
	s := &Selected{Count: t.count, Sample: t.sample, Incomplete: incomplete}
	for name, keys := range t.limits {
		s.Limits = append(s.Limits, LimitCount{name, keys})
	}
	slices.SortFunc(s.Limits, func(a, b LimitCount) int { return cmp.Or(b.Keys-a.Keys, cmp.Compare(a.Name, b.Name)) })
	return s
}

// each calls do with the targets, at most size at a time.
func (t *targets) each(size int, do func(backup.Batch) error) error {
	if t.backup != nil {
		return t.backup.each(size, do)
	}
	return t.held.Split(size, do)
}
