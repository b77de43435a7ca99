package operation

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// migration goes once through the old limits, a batch at a time. Unless writes is set it only
// finds out what would happen.
type migration struct {
	Migrated
	runner    *Runner
	plan      *MigratePlan
	overrides *store.OverrideList // those in force; nil for none
	writes    bool
	backup    *backupFile
	// unknown is how many old limits have no known outcome.
	unknown int64
	// failed: the store that is written to failed, or the backup.
	failed bool
	batch  migrationBatch
	// seen are our keys of all batches so far, by a hash, and what the backup has of them. A hash of
	// two keys would cost one of them its backup; among a million keys there is one in one
	// of ten million migrations.
	seen map[uint64]inBackup
	seed maphash.Seed
}

// inBackup is what the backup of a migration says of a key.
type inBackup uint8

const (
	notInBackup inBackup = iota
	leftOut              // it was left as it was, so it is not to be brought back
	bringsBack
)

// migrationBatch is some old limits, and what to do with our keys for them.
type migrationBatch struct {
	old []oldLimit
	// adjustments are of different keys. index finds them.
	adjustments []admin.Adjustment
	index       map[store.Key]int
}

// oldLimit is an old limit on its way.
type oldLimit struct {
	entry   admin.Entry
	targets []int   // the adjustments
	wanted  []int64 // what has to be in use of each
	filled  bool
}

// run goes through the old limits. An error of what is written sets failed.
func (m *migration) run(ctx context.Context, observer Observer) (Found, error) {
	m.seed, m.seen = maphash.MakeSeed(), map[uint64]inBackup{}
	selection := m.plan.Selection
	found, err := Scan(ctx, m.plan.From, &selection, observer, func(e *admin.Entry, _ error) error {
		if err := m.add(e); err != nil {
			return err
		}
		if len(m.batch.old) < keysPerBatch {
			return nil
		}
		return m.flush(ctx)
	})
	if ctx.Err() == nil && !m.failed { // what was found before the scan broke off is as good as the rest
		err = errors.Join(err, m.flush(ctx))
	}
	return found, err
}

// add puts an old limit into the batch, or counts why it cannot be carried over.
func (m *migration) add(e *admin.Entry) error {
	m.Matched++
	if e.IsStuck() && !(e.UsedKnown() && e.Used == 0) { // nothing used needs nothing back
		m.Stuck++
	}
	if !e.UsedKnown() {
		m.UsageUnknown++
		return nil
	}
	reqs, err := m.plan.Into(e)
	for i := 0; i < len(reqs) && err == nil; i++ {
		err = reqs[i].Normalize(store.Charge)
	}
	switch {
	case errors.Is(err, store.ErrInvalid):
		if m.Unfit++; len(m.FirstUnfit) < keptForeign {
			m.FirstUnfit = append(m.FirstUnfit, err)
		}
		return nil
	case err != nil:
		m.failed = true
		return err
	}
	old, shared := oldLimit{entry: *e}, false
	old.entry.Record = admin.Record{} // which may be large
	for i := range reqs {
		hash := m.hash(reqs[i].Key)
		if _, has := m.seen[hash]; has {
			shared = true
		} else {
			m.seen[hash] = notInBackup
		}
		n := m.batch.adjustmentOf(reqs[i].Key, m.limitOf(&reqs[i]))
		a := &m.batch.adjustments[n]
		wanted := min(max(0, e.Used), a.Limit.Capacity())
		a.Used = max(a.Used, wanted)
		old.targets, old.wanted = append(old.targets, n), append(old.wanted, wanted)
		old.filled = old.filled || wanted < e.Used
	}
	if shared {
		m.Shared++
	}
	m.batch.old = append(m.batch.old, old)
	return nil
}

// limitOf is the limit that applies to a request, with the override in force.
func (m *migration) limitOf(req *store.Request) store.Limit {
	if m.overrides == nil {
		return req.Limit
	}
	return overridden(req.Limit, m.overrides.For(req.Key))
}

// adjustmentOf returns the index of the adjustment of a key.
func (b *migrationBatch) adjustmentOf(key store.Key, limit store.Limit) int {
	if n, has := b.index[key]; has {
		return n
	}
	if b.index == nil {
		b.index = map[store.Key]int{}
	}
	n := len(b.adjustments)
	b.index[key] = n
	b.adjustments = append(b.adjustments, admin.Adjustment{Key: key, Limit: limit, OnlyMore: true})
	return n
}

// flush reads what our keys hold, charges what is missing, and counts the outcomes of the batch.
// A batch that has begun is finished, also if the migration is interrupted meanwhile.
func (m *migration) flush(ctx context.Context) error {
	batch := m.batch
	m.batch = migrationBatch{}
	if len(batch.old) == 0 {
		return nil
	}
	ctx, cancel := store.BudgetContext(context.WithoutCancel(ctx), m.runner.Timeout)
	defer cancel()
	held, occupied, err := m.held(ctx, &batch)
	if err != nil {
		m.failed = true
		return err
	}
	results := make([]admin.Adjusted, len(batch.adjustments))
	if !m.writes {
		for i := range results {
			a := &batch.adjustments[i]
			before := held[a.Key].Used
			results[i] = admin.Adjusted{Done: !occupied[a.Key], Before: before, After: a.Wanted(before)}
		}
	} else if results, err = m.charge(ctx, &batch, held, occupied); err != nil {
		m.failed = true
	}
	m.count(&batch, results, errors.Is(err, store.ErrOutcomeUnknown))
	return err
}

// held returns what our keys hold, and which of them hold what limitctl did not write.
func (m *migration) held(ctx context.Context, batch *migrationBatch) (held map[store.Key]admin.Entry, occupied map[store.Key]bool,
	err error) {
	query := admin.Query{Records: m.backup != nil}
	for i := range batch.adjustments {
		query.Keys = append(query.Keys, batch.adjustments[i].Key)
	}
	held, occupied = map[store.Key]admin.Entry{}, map[store.Key]bool{}
	for e, err := range m.runner.Store.Scan(ctx, query) {
		switch {
		case errors.Is(err, store.ErrForeign):
			occupied[e.Key] = true
		case err != nil:
			return nil, nil, err
		default:
			held[e.Key] = e
		}
	}
	return held, occupied, nil
}

// charge keeps what our keys hold, and charges what is missing. What the store has said is among
// the results, also with an error.
func (m *migration) charge(ctx context.Context, batch *migrationBatch, held map[store.Key]admin.Entry, occupied map[store.Key]bool) (
	[]admin.Adjusted, error) {
	results := make([]admin.Adjusted, len(batch.adjustments))
	var changes []admin.Adjustment
	var index []int
	for i := range batch.adjustments {
		a := batch.adjustments[i]
		if occupied[a.Key] || a.Used == 0 {
			results[i] = admin.Adjusted{Done: !occupied[a.Key], Before: held[a.Key].Used, After: held[a.Key].Used}
			continue
		}
		if m.backup != nil && m.seen[m.hash(a.Key)] != bringsBack {
			a.Kept = append([]byte{}, held[a.Key].Record.Value...) // empty if nothing is in use
		}
		changes, index = append(changes, a), append(index, i)
	}
	if err := m.keep(changes, held); err != nil {
		return results, err
	}
	adjusted, err := m.runner.Store.Adjust(ctx, changes...)
	var late []admin.Record
	var same []admin.Record
	for n := range adjusted {
		key := changes[n].Key
		results[index[n]] = adjusted[n]
		switch a := &adjusted[n]; {
		case changes[n].Kept == nil || !a.Done:
		case a.Before == a.After:
			same = append(same, admin.Record{Key: key})
			m.seen[m.hash(key)] = leftOut
		case a.Record.Value != nil && a.Record.Check() == nil:
			late = append(late, a.Record)
		}
	}
	if m.backup != nil {
		if err := errors.Join(m.backup.amend(late), m.backup.exclude(same)); err != nil {
			return results, err
		}
	}
	var foreign Foreign
	return results, foreign.take(err) // those are counted as occupied
}

// keep writes what our keys hold to the backup, each once.
func (m *migration) keep(changes []admin.Adjustment, held map[store.Key]admin.Entry) error {
	if m.backup == nil || len(changes) == 0 {
		return nil
	}
	for i := range changes {
		a := &changes[i]
		if a.Kept == nil {
			continue
		}
		hash := m.hash(a.Key)
		again := m.seen[hash] == leftOut // and may not be this time
		m.seen[hash] = bringsBack
		var err error
		switch {
		case len(a.Kept) == 0:
			err = m.backup.addUnused(again, a.Key)
		case again:
			err = m.backup.amend([]admin.Record{held[a.Key].Record})
		default:
			entry := held[a.Key]
			err = m.backup.add(&entry)
		}
		if err != nil {
			return err
		}
	}
	return m.backup.sync()
}

func (m *migration) hash(key store.Key) uint64 { return maphash.Comparable(m.seed, key) }

// count counts the outcomes of the old limits of a batch. unknown: a change that the store did not report
// may have happened.
func (m *migration) count(batch *migrationBatch, results []admin.Adjusted, unknown bool) {
	for i := range batch.old {
		old := &batch.old[i]
		done, raised := true, false
		for n, target := range old.targets {
			r := &results[target]
			done = done && r.Done && r.After >= old.wanted[n]
			raised = raised || r.After > r.Before
		}
		switch {
		case !done && unknown:
			m.unknown++
			continue
		case !done && m.failed:
			continue
		case !done:
			m.Occupied++
			continue
		case raised:
			m.Raised++
		default:
			m.Already++
		}
		if old.filled {
			m.Filled++
		}
		if len(m.Sample) < sampled {
			r := &results[old.targets[0]]
			m.Sample = append(m.Sample, Carried{Old: old.entry, Key: batch.adjustments[old.targets[0]].Key, Before: r.Before,
				After: r.After})
		}
	}
}

// Names returns the names of the old limits that m is about, as far as its sample shows.
func (m *Migrated) Names() (names []string) {
	for i := range m.Sample {
		if name := m.Sample[i].Old.Key.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
