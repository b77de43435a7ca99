package operation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// old is a limit of another limiter with so many units in use.
func old(subject any, used int64) admin.Entry {
	return admin.Entry{Key: store.Key{Subject: fmt.Sprint(subject), Name: "peer"}, StoreKey: fmt.Sprint("peer:", subject), Layout: "peer",
		Decision: store.Decision{Used: used}}
}

// intoTenAnHour carries a limit over into the one of the same subject.
func intoTenAnHour(e *admin.Entry) ([]store.Request, error) {
	return []store.Request{{Key: store.Key{Subject: e.Key.Subject, Name: "n"}, Limit: tenAnHour, Cost: 1}}, nil
}

// planToMigrate carries over all of some limits, with a backup in the site's directory.
func (s *site) planToMigrate(t *testing.T, from admin.Keyspace) *MigratePlan {
	t.Helper()
	return &MigratePlan{From: from, Selection: everything(t), Into: intoTenAnHour, Text: "'*' in words", Consent: Consent{Yes: true},
		Backup: &BackupPlan{Path: filepath.Join(s.dir, fmt.Sprintf("backup%d.jsonl", len(s.left(t))))}}
}

// counts are numbers of a migration without its examples.
type counts struct{ Matched, Raised, Already, Filled, Shared, UsageUnknown, Unfit, Occupied int64 }

func countsOf(m *Migrated) counts {
	return counts{m.Matched, m.Raised, m.Already, m.Filled, m.Shared, m.UsageUnknown, m.Unfit, m.Occupied}
}

// occupiedStore has a key that holds what limitctl did not write.
type occupiedStore struct {
	connect.Store
	key store.Key
}

func (o *occupiedStore) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for e, err := range o.Store.Scan(ctx, q) {
			if !yield(e, err) {
				return
			}
		}
		for _, key := range q.Keys {
			if key == o.key && !yield(admin.Entry{Key: key}, &store.ForeignError{StoreKey: "rl:x", Holds: "a list"}) {
				return
			}
		}
	}
}

// Every old limit ends up in force or in a count that says why not, nothing is lowered, and the
// way back leaves all as it was.
func TestMigrate(t *testing.T) {
	for _, dryRun := range []bool{true, false} {
		t.Run(fmt.Sprint("dry run ", dryRun), func(t *testing.T) {
			s, w := newSite(t), &watcher{}
			s.take(t, "more", 8)
			s.take(t, "less", 2)
			s.Store = &occupiedStore{s.Store, key("occupied")}
			unknown := old("unknown", 0)
			unknown.UsedUnknown = true
			from := storetest.Entries{old("new", 3), old("more", 5), old("less", 6), old("full", 25), unknown,
				old("{braces}", 4), old("occupied", 4), old("none", 0), old("minus", -2)}
			plan := s.planToMigrate(t, from)
			plan.DryRun = dryRun
			result, err := s.Migrate(t.Context(), plan, w)
			if err == nil || !errors.Is(err, outcome.ErrPartly) {
				t.Fatalf("it ended with %v", err)
			}
			want := "3 old limits not carried over: of 1 old limit nobody can tell what is used without the limit; there can be no key " +
				`for 1 old limit (subject "{braces}" contains '{', which delimits the subject in a key; leave it out); ` +
				"the keys for 1 old limit hold what limitctl did not write"
			if !strings.Contains(err.Error(), want) {
				t.Errorf("it says %v, want %s", err, want)
			}
			wanted := counts{Matched: 9, Raised: 3, Already: 3, Filled: 1, UsageUnknown: 1, Unfit: 1, Occupied: 1}
			if got := countsOf(&result.Migrated); got != wanted {
				t.Errorf("it counts %+v, want %+v", got, wanted)
			}
			if sample := result.Sample; len(sample) != 5 || sample[2].Before != 2 || sample[2].After != 6 || sample[2].Old.Used != 6 {
				t.Errorf("it shows %+v", sample)
			}
			if dryRun {
				if s.used(t, "less") != 2 || s.inUse(t) != 2 || len(w.questions) > 0 || w.selected.Migration.Raised != 3 {
					t.Errorf("a dry run asked %v or changed something: %d keys", w.questions, s.inUse(t))
				}
				s.checkUntouched(t, 2)
				return
			}
			for subject, used := range map[string]int64{"new": 3, "more": 8, "less": 6, "full": 10, "none": 0, "minus": 0} {
				if got := s.used(t, subject); got != used {
					t.Errorf("%d is used of %s, want %d", got, subject, used)
				}
			}
			entry := s.log.entries[0]
			if entry.Command != "migrate" || entry.Matched != 9 || entry.Changed != 3 || entry.Outcome != auditlog.Partly ||
				entry.Backup != result.Backup {
				t.Errorf("the audit log has %+v", entry)
			}
			undone := s.restoreAll(t, result.Backup)
			if *undone != (RestoreResult{Restored: 3}) || s.used(t, "less") != 2 || s.used(t, "more") != 8 || s.inUse(t) != 2 {
				t.Errorf("undone: %+v, %d keys in use", undone, s.inUse(t))
			}
		})
	}
}

// A migration that is run again charges nothing twice, whatever was taken in between.
func TestMigrateAgain(t *testing.T) {
	s := newSite(t)
	from := storetest.Entries{old("a", 3), old("b", 4)}
	for i, want := range []counts{{Matched: 2, Raised: 2}, {Matched: 2, Already: 2}, {Matched: 2, Already: 2}} {
		result, err := s.Migrate(t.Context(), s.planToMigrate(t, from), &watcher{})
		if err != nil || countsOf(&result.Migrated) != want || (result.Backup != "") != (i == 0) {
			t.Errorf("time %d: %+v, %v, want %+v", i+1, result, err, want)
		}
		if i == 1 {
			s.take(t, "a", 2)
		}
	}
	if s.used(t, "a") != 5 || s.used(t, "b") != 4 {
		t.Errorf("%d and %d are used", s.used(t, "a"), s.used(t, "b"))
	}
	from[1].Used = 6 // the other limiter went on
	if result, err := s.Migrate(t.Context(), s.planToMigrate(t, from), &watcher{}); err != nil || result.Raised != 1 ||
		s.used(t, "b") != 6 {
		t.Errorf("what has come since: %+v, %v", result, err)
	}
}

// Services take units of the new limits between the look at them and the charge. Nothing of
// that is lost, neither now nor when the migration is undone.
func TestMigrateWhileOthersTake(t *testing.T) {
	s := newSite(t)
	s.take(t, "known", 1)
	s.Store = &brokenStore{Store: s.memory, adjust: func(do adjusting, adjustments []admin.Adjustment) ([]admin.Adjusted, error) {
		for subject, cost := range map[string]int64{"known": 1, "new": 2, "over": 9} {
			s.take(t, subject, cost)
		}
		return do(adjustments...)
	}}
	plan := s.planToMigrate(t, storetest.Entries{old("known", 4), old("new", 5), old("over", 6), old("fresh", 7)})
	result, err := s.Migrate(t.Context(), plan, &watcher{})
	if err != nil || countsOf(&result.Migrated) != (counts{Matched: 4, Raised: 3, Already: 1}) {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	check := func(when string, known, fresh, over, none int64) {
		t.Helper()
		if s.used(t, "known") != known || s.used(t, "new") != fresh || s.used(t, "over") != over || s.used(t, "fresh") != none {
			t.Errorf("%s %d, %d, %d and %d are used", when, s.used(t, "known"), s.used(t, "new"), s.used(t, "over"), s.used(t, "fresh"))
		}
	}
	check("afterwards", 4, 5, 9, 7)
	if undone := s.restoreAll(t, result.Backup); *undone != (RestoreResult{Restored: 3}) {
		t.Errorf("undone: %+v", undone)
	}
	check("undone,", 2, 2, 9, 0)
}

// Several old limits can go into one. The most used counts, in whatever order they come and in
// whichever batch.
func TestMigrateSeveralIntoOne(t *testing.T) {
	s := newSite(t)
	from := storetest.Entries{}
	for i := range 3 * keysPerBatch {
		from = append(from, old(i, int64(i*7%10)))
	}
	plan := s.planToMigrate(t, from)
	s.take(t, "all", 2)
	plan.Into = func(*admin.Entry) ([]store.Request, error) {
		return []store.Request{{Key: key("all"), Limit: tenAnHour, Cost: 1}}, nil
	}
	from[0].Used, from[1].Used = 0, 0
	for i := range from {
		if i < keysPerBatch {
			from[i].Used = min(from[i].Used, 2) // the first batch changes nothing
		}
	}
	result, err := s.Migrate(t.Context(), plan, &watcher{})
	if err != nil || result.Matched != int64(len(from)) || result.Shared != result.Matched-1 || result.Left() != 0 ||
		s.used(t, "all") != 9 {
		t.Fatalf("%d are used after %+v, %v", s.used(t, "all"), result, err)
	}
	backup := s.opened(t, result.Backup)
	if backup.Records != 1 || backup.Damaged != 0 {
		t.Errorf("the backup has %d records", backup.Records)
	}
	if s.restoreAll(t, result.Backup); s.used(t, "all") != 2 {
		t.Errorf("undone, %d are used", s.used(t, "all"))
	}
}

// A migration does not begin without a yes, where it is forbidden, without an audit, or if one
// of the stores fails.
func TestAMigrationThatDoesNotBegin(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*site, *MigratePlan, *watcher)
		want   string
	}{
		"no":        {func(_ *site, p *MigratePlan, w *watcher) { p.Consent, w.answer = Consent{}, errNo }, "no"},
		"read-only": {func(s *site, _ *MigratePlan, _ *watcher) { s.Place.Access = Access{Context: "prod", ReadOnly: true} }, "read-only"},
		"protected": {func(s *site, _ *MigratePlan, w *watcher) {
			s.Place.Access, w.answer = Access{Context: "prod", Protected: true}, errNo
		}, "no"},
		"no audit": {func(s *site, _ *MigratePlan, _ *watcher) { s.log.openErr = errors.New("no audit") }, "no audit"},
		"old keys": {func(_ *site, p *MigratePlan, _ *watcher) {
			p.From = &awayScan{p.From}
		}, "nothing was changed"},
		"new keys": {func(s *site, _ *MigratePlan, _ *watcher) {
			s.Store = &awayScan{s.Store}
		}, "nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newSite(t), &watcher{}
			plan := s.planToMigrate(t, storetest.Entries{old("a", 3)})
			test.change(s, plan, w)
			result, err := s.Migrate(t.Context(), plan, w)
			if err == nil || !strings.Contains(err.Error(), test.want) || result != nil && result.Carried() > 0 && name == "old keys" {
				t.Fatalf("it came to %+v, %v", result, err)
			}
			s.checkUntouched(t, 0)
		})
	}
}

// awayScan is a store that is away when it is scanned.
type awayScan struct{ connect.Store }

func (awayScan) Scan(context.Context, admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) { yield(admin.Entry{}, store.ErrUnavailable) }
}

// An interrupted migration finishes its batch, says how far it came, and can be run again.
func TestAnInterruptedMigration(t *testing.T) {
	s := newSite(t)
	from := storetest.Entries{}
	for i := range 3*keysPerBatch + 1 {
		from = append(from, old(i, 3))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Store = &brokenStore{Store: s.memory, adjust: func(do adjusting, adjustments []admin.Adjustment) ([]admin.Adjusted, error) {
		cancel()
		return do(adjustments...)
	}}
	result, err := s.Migrate(ctx, s.planToMigrate(t, &heeding{from, ctx}), &watcher{})
	if !errors.Is(err, context.Canceled) || result.Raised != keysPerBatch || s.inUse(t) != keysPerBatch ||
		!strings.Contains(err.Error(), "500 of 1501 old limits carried over") || s.log.entries[0].Outcome != auditlog.Interrupted {
		t.Fatalf("it came to %+v, %v, with %d keys", result, err, s.inUse(t))
	}
	again, err := s.Migrate(t.Context(), s.planToMigrate(t, from), &watcher{})
	if err != nil || again.Already != keysPerBatch || again.Raised != 2*keysPerBatch+1 {
		t.Fatalf("again it came to %+v, %v", again, err)
	}
	for _, r := range []*MigrateResult{again, result} {
		s.restoreAll(t, r.Backup)
	}
	if s.inUse(t) != 0 {
		t.Errorf("%d keys are left after both were undone", s.inUse(t))
	}
}

// heeding is entries whose scan ends when the context does.
type heeding struct {
	storetest.Entries
	ctx context.Context
}

func (h *heeding) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for e, err := range h.Entries.Scan(ctx, q) {
			if h.ctx.Err() != nil {
				yield(admin.Entry{}, h.ctx.Err())
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// If nobody knows what became of a batch, the backup has it, and the count says so.
func TestAMigrationWhoseOutcomeIsUnknown(t *testing.T) {
	s := newSite(t)
	s.Store = &brokenStore{Store: s.memory, adjust: func(do adjusting, adjustments []admin.Adjustment) ([]admin.Adjusted, error) {
		do(adjustments...)
		return make([]admin.Adjusted, len(adjustments)), store.ErrOutcomeUnknown
	}}
	result, err := s.Migrate(t.Context(), s.planToMigrate(t, storetest.Entries{old("a", 3), old("b", 0)}), &watcher{})
	if !errors.Is(err, store.ErrOutcomeUnknown) || result.Unknown != 1 || result.Already != 1 || result.Raised != 0 {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	if s.log.entries[0].Unknown != 1 || result.Backup == "" || s.used(t, "a") != 3 {
		t.Fatalf("the audit log has %+v", s.log.entries)
	}
	s.Store = s.memory
	if s.restoreAll(t, result.Backup); s.inUse(t) != 0 {
		t.Errorf("%d keys are left", s.inUse(t))
	}
}

// What was found is carried over after a broken scan only if somebody has agreed to that.
func TestAMigrationAfterABrokenScan(t *testing.T) {
	for _, keepGoing := range []bool{false, true} {
		s := newSite(t)
		plan := s.planToMigrate(t, &failingScan{Store: storetest.Entries{old("a", 3), old("b", 4)}, after: 1})
		plan.KeepGoing = keepGoing
		result, err := s.Migrate(t.Context(), plan, &watcher{})
		broken := (*BrokenScanError)(nil)
		if !errors.Is(err, store.ErrUnavailable) || errors.As(err, &broken) == keepGoing || errors.Is(err, outcome.ErrPartly) != keepGoing {
			t.Errorf("it came to %+v, %v", result, err)
		}
		if carried := map[bool]int64{true: 1}[keepGoing]; s.inUse(t) != carried {
			t.Errorf("%d keys are in use, want %d", s.inUse(t), carried)
		}
	}
}

// Whatever is in use on both sides: afterwards at least as much is in use as the old limiter
// counted, or all that the limit holds, and never less than before.
func TestTheLawOfMigration(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s := newSite(t)
		from := storetest.Entries{}
		before, counted := map[string]int64{}, map[string]int64{}
		for range random.IntN(40) {
			e := old(random.IntN(20), random.Int64N(15)-1)
			from = append(from, e)
			counted[e.Key.Subject] = max(counted[e.Key.Subject], e.Used)
		}
		for i := range 20 {
			subject := fmt.Sprint(i)
			if before[subject] = random.Int64N(11); before[subject] > 0 {
				s.take(t, subject, before[subject])
			}
		}
		result, err := s.Migrate(t.Context(), s.planToMigrate(t, from), &watcher{})
		if err != nil || result.Carried() != int64(len(from)) {
			t.Fatalf("it came to %+v, %v", result, err)
		}
		for subject, was := range before {
			if want := max(was, min(10, counted[subject])); s.used(t, subject) != want {
				t.Errorf("%d are used of %s with %d before and %d counted", s.used(t, subject), subject, was, counted[subject])
			}
		}
	}
}
