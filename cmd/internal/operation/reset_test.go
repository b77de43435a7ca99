package operation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestReset(t *testing.T) {
	s, w := newSite(t), &watcher{}
	for i := range 7 {
		s.take(t, i, 3)
	}
	s.Place.Context = "dev"
	plan := s.planToReset(t)
	before := *plan
	result, err := s.Reset(t.Context(), plan, w)
	path := filepath.Join(s.dir, "backup.jsonl")
	if err != nil || result.Matched != 7 || result.Changed != 7 || result.Backup != path {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	if n := s.inUse(t); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	if len(w.questions) != 1 || w.questions[0] != (Question{Text: "Delete 7 keys"}) {
		t.Errorf("it asked %+v", w.questions)
	}
	for _, e := range w.selected.Sample {
		if e.Record.Value != nil {
			t.Errorf("the sample holds the record of %s", e.Key)
		}
	}
	if w.selected.Count != 7 || len(w.selected.Sample) != 5 || len(w.selected.Limits) != 1 || w.selected.Limits[0] != (LimitCount{"n", 7}) {
		t.Errorf("it showed %+v", w.selected)
	}
	if len(w.undo) != 1 || w.undo[0] != result.Backup || fmt.Sprint(w.steps) != "[scanning resetting]" {
		t.Errorf("it told the ways back %v and the steps %v", w.undo, w.steps)
	}
	want := auditlog.Entry{Time: s.now.UTC(), User: "night", Context: "dev", Store: "memory", Prefix: "rl", Command: "reset",
		Selection: "'*' in words", Matched: 7, Changed: 7, Backup: path, Outcome: auditlog.Done}
	if len(s.log.entries) != 1 || !reflect.DeepEqual(s.log.entries[0], want) || s.log.closed != 1 {
		t.Errorf("the audit log has %+v, want %+v", s.log.entries, want)
	}
	if !reflect.DeepEqual(*plan, before) {
		t.Errorf("the plan became %+v", plan)
	}
}

// Whatever keeps a reset from beginning, no key is changed, and no file and no line of
// the audit log is left.
func TestAResetThatDoesNotBegin(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(s *site, w *watcher, plan *ResetPlan)
		is      func(error) bool
		says    string
	}{
		"a no": {func(_ *site, w *watcher, _ *ResetPlan) { w.answer = errNo }, func(err error) bool { return errors.Is(err, errNo) }, "no"},
		"a protected context, and a no to its question": {func(s *site, w *watcher, plan *ResetPlan) {
			s.Place.Access = Access{Context: "prod", Protected: true}
			w.answer, plan.Consent.Yes = errNo, true
		}, func(err error) bool { return errors.Is(err, errNo) }, "no"},
		"a read-only context": {func(s *site, _ *watcher, plan *ResetPlan) {
			s.Place.Access = Access{Context: "prod", ReadOnly: true}
			plan.Consent = Consent{Yes: true, Context: "prod"}
		}, func(err error) bool { return errors.Is(err, store.ErrInvalid) },
			`context "prod" is read-only; a reset writes, so it was not done`},
		"a consent for another context": {func(s *site, _ *watcher, plan *ResetPlan) {
			s.Place.Access = Access{Context: "prod", Protected: true}
			plan.Consent = Consent{Yes: true, Context: "dev"}
		}, func(err error) bool { return errors.Is(err, store.ErrInvalid) },
			"the consent is for context dev, and the context in use is prod"},
		"an audit log that cannot be opened": {func(s *site, _ *watcher, _ *ResetPlan) { s.log.openErr = os.ErrPermission },
			func(err error) bool { return errors.Is(err, os.ErrPermission) }, ""},
		"more remaining than fits": {func(_ *site, _ *watcher, plan *ResetPlan) { plan.Remaining = &Remaining{Units: 11} },
			func(err error) bool { return errors.Is(err, store.ErrInvalid) },
			"11 remaining is more than limit token-bucket:10/1h of key "},
		"no directory for the backup": {func(s *site, _ *watcher, plan *ResetPlan) { plan.Backup.Path = filepath.Join(s.dir, "none", "b") },
			func(err error) bool { return errors.As(err, new(*NoBackupError)) }, "the backup cannot be written: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newSite(t), &watcher{}
			s.take(t, "a", 3)
			plan := s.planToReset(t)
			test.prepare(s, w, plan)
			result, err := s.Reset(t.Context(), plan, w)
			if result != nil || err == nil || !test.is(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it came to %+v, %v", result, err)
			}
			if len(w.undo) > 0 {
				t.Errorf("it told a way back: %v", w.undo)
			}
			s.checkUntouched(t, 1)
		})
	}
}

// That one limit is too small for what is to remain ends a reset before it changes others.
func TestOneLimitIsTooSmall(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	large := store.Key{Subject: "large", Name: "n"}
	if _, err := storecall.New(s.memory).Take(t.Context(), large, store.Limit{Count: 100, Period: tenAnHour.Period}, 1); err != nil {
		t.Fatal(err)
	}
	plan := s.planToReset(t)
	plan.Remaining, plan.Selection.Query = &Remaining{Units: 50}, admin.Query{Keys: []store.Key{large, key("a")}}
	if result, err := s.Reset(t.Context(), plan, &watcher{}); result != nil || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("it came to %+v, %v", result, err)
	}
	s.checkUntouched(t, 2)
}

func TestABackupReplacesNoFile(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	plan := s.planToReset(t)
	if err := os.WriteFile(plan.Backup.Path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if result, err := s.Reset(t.Context(), plan, &watcher{}); result != nil || !errors.As(err, new(*NoBackupError)) {
		t.Errorf("it came to %+v, %v", result, err)
	}
	if text, err := os.ReadFile(plan.Backup.Path); string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestADryRunAsksAndChangesNothing(t *testing.T) {
	s, w := newSite(t), &watcher{answer: errNo}
	s.take(t, "a", 3)
	plan := s.planToReset(t)
	plan.DryRun = true
	s.Place.Access = Access{Context: "prod", ReadOnly: true}
	result, err := s.Reset(t.Context(), plan, w)
	if err != nil || result.Matched != 1 || result.Changed != 0 || result.Backup != "" || w.selected.Count != 1 || len(w.questions) > 0 {
		t.Errorf("it came to %+v, %v, and asked %v", result, err, w.questions)
	}
	s.checkUntouched(t, 1)
}

// A reset of nothing asks nothing and is no line of the audit log.
func TestAResetOfNothing(t *testing.T) {
	s, w := newSite(t), &watcher{answer: errNo}
	result, err := s.Reset(t.Context(), s.planToReset(t), w)
	if err != nil || result.Matched != 0 || w.selected.Count != 0 || len(w.questions) > 0 {
		t.Errorf("it came to %+v, %v, and asked %v", result, err, w.questions)
	}
	s.checkUntouched(t, 0)
}

// many are more keys than a batch has.
const many = keysPerBatch + 100

func (s *site) takeMany(t *testing.T) {
	t.Helper()
	for i := range many {
		s.take(t, i, 3)
	}
}

// What was deleted before the store failed is counted, and all of it is in the backup.
func TestAResetThatFailsInTheMiddle(t *testing.T) {
	s, w := newSite(t), &watcher{}
	s.takeMany(t)
	batches := 0
	s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (int, []admin.Record, error) {
		if batches++; batches > 1 {
			return 0, nil, fmt.Errorf("gone: %w", store.ErrUnavailable)
		}
		return do(records...)
	}}
	result, err := s.Reset(t.Context(), s.planToReset(t), w)
	if result == nil || result.Matched != many || result.Changed != keysPerBatch || result.Backup == "" {
		t.Fatalf("it came to %+v", result)
	}
	if !errors.Is(err, outcome.ErrPartly) || !store.IsAway(err) || !strings.HasSuffix(err.Error(), "(500 of 600 keys done"+resetEndsWith) {
		t.Errorf("the error is %v", err)
	}
	entry := s.log.entries[0]
	if entry.Outcome != auditlog.Partly || entry.Matched != many || entry.Changed != keysPerBatch || entry.Error != "described: "+
		err.Error() {
		t.Errorf("the audit log has %+v", entry)
	}
	s.Store = s.memory
	if restored := s.restoreAll(t, result.Backup); restored.Restored != keysPerBatch || restored.Already != many-keysPerBatch {
		t.Errorf("of the backup come back %+v", restored)
	}
}

// Nothing can have been changed in a store that was not reached, so that no backup is
// kept; but it can if the answer did not come. Nobody is told to undo what a store has refused.
func TestABackupIsKeptIfSomethingMayBeChanged(t *testing.T) {
	for name, test := range map[string]struct {
		err          error
		kept, undone bool
		says         string
	}{
		"not reached": {store.ErrUnavailable, false, false, "(0 of 1 key done)"},
		"no answer":   {store.ErrOutcomeUnknown, true, true, "(0 of 1 key known to be done" + resetEndsWith},
		"a refusal":   {store.ErrRefused, true, false, "(0 of 1 key done)"},
	} {
		s, w := newSite(t), &watcher{}
		s.take(t, "a", 3)
		s.Store = &brokenStore{Store: s.memory, delete: func(deleting, []admin.Record) (int, []admin.Record, error) {
			return 0, nil, test.err
		}}
		result, err := s.Reset(t.Context(), s.planToReset(t), w)
		if result == nil || !errors.Is(err, test.err) || errors.Is(err, outcome.ErrPartly) || !strings.HasSuffix(err.Error(), test.says) {
			t.Errorf("%s: it came to %+v, %v", name, result, err)
			continue
		}
		kept := len(s.left(t)) > 0
		if kept != test.kept || (result.Backup != "") != test.undone || (len(w.undo) > 0) != test.undone ||
			(s.log.entries[0].Backup != "") != kept {
			t.Errorf("%s: a backup is kept: %v; it told %+v, %v; the audit log has %+v", name, kept, result.Backup, w.undo, s.log.entries)
		}
		if s.log.entries[0].Outcome != auditlog.Failed {
			t.Errorf("%s: the audit log has %+v", name, s.log.entries)
		}
	}
}

// A batch that has begun is finished and counted; the next does not begin.
func TestAnInterruptedReset(t *testing.T) {
	s := newSite(t)
	s.takeMany(t)
	ctx, interrupt := context.WithCancel(t.Context())
	s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (int, []admin.Record, error) {
		interrupt()
		return do(records...)
	}}
	result, err := s.Reset(ctx, s.planToReset(t), &watcher{})
	if result == nil || result.Changed != keysPerBatch || result.Backup == "" || !errors.Is(err, context.Canceled) {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	if entry := s.log.entries[0]; entry.Outcome != auditlog.Interrupted || entry.Changed != keysPerBatch {
		t.Errorf("the audit log has %+v", entry)
	}
	if n := s.inUse(t); n != many-keysPerBatch {
		t.Errorf("%d keys are left", n)
	}
}

func TestAResetInterruptedAtItsQuestion(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	ctx, interrupt := context.WithCancel(t.Context())
	result, err := s.Reset(ctx, s.planToReset(t), &watcher{onConfirm: interrupt})
	if result != nil || !errors.Is(err, context.Canceled) || !strings.HasSuffix(err.Error(), "(nothing was changed)") {
		t.Errorf("it came to %+v, %v", result, err)
	}
	s.checkUntouched(t, 1)
}

// A unit that is taken between the scan and the deletion is in the backup, too.
func TestTheBackupHasWhatWasDeleted(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{onSelected: func() { s.take(t, "a", 2) }})
	if err != nil || result.Changed != 1 {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	s.restoreAll(t, result.Backup)
	if used := s.used(t, "a"); used != 5 {
		t.Errorf("%d units come back, and 5 were deleted", used)
	}
}

// Keys that somebody else deletes between the scan and the deletion are counted apart.
func TestKeysThatAreGoneMeanwhile(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.take(t, "b", 4)
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{onConfirm: func() {
		if _, _, err := s.memory.Delete(t.Context(), admin.Record{Key: key("b")}); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || result.Matched != 2 || result.Changed != 1 || result.Gone != 1 {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	s.restoreAll(t, result.Backup)
	if a, b := s.used(t, "a"), s.used(t, "b"); a != 3 || b != 4 {
		t.Errorf("undo brings back %d and %d units", a, b)
	}
}

// A record that was damaged between the scan and the deletion does not replace the sound one in the backup.
func TestTheBackupKeepsWhatWasDamagedSince(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.take(t, "b", 4)
	s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (int, []admin.Record, error) {
		deleted, _, err := do(records...)
		damaged := admin.Record{Key: key("a"), Value: []byte("\x02damaged")}
		if damaged.Check() == nil {
			t.Error("the record is not damaged")
		}
		return deleted, []admin.Record{damaged}, err
	}}
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if err != nil || result.Changed != 2 {
		t.Fatalf("it came to %+v, %v", result, err)
	}
	s.Store = s.memory
	if b := s.opened(t, result.Backup); b.Damaged > 0 || b.Records != 2 {
		t.Errorf("the backup has %d records and %d damaged lines", b.Records, b.Damaged)
	}
	s.restoreAll(t, result.Backup)
	if s.used(t, "a") != 3 || s.used(t, "b") != 4 {
		t.Errorf("%d and %d units come back", s.used(t, "a"), s.used(t, "b"))
	}
}

// failingScan ends a scan with an error after some keys, or meets a foreign value first.
type failingScan struct {
	connect.Store
	after   int // 0 for no error
	foreign bool
}

func (f *failingScan) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		if f.foreign && !yield(admin.Entry{Key: key("f")}, &store.ForeignError{StoreKey: "rl:{f}:n", Holds: "a list"}) {
			return
		}
		n := 0
		for e, err := range f.Store.Scan(ctx, q) {
			if n++; !yield(e, err) {
				return
			}
			if n == f.after {
				q.Report(int64(n), 3)
				yield(admin.Entry{}, fmt.Errorf("the scan: %w", errors.Join(
					&admin.IncompleteError{Shard: "10.0.0.2:7", Err: store.ErrUnavailable},
					&admin.IncompleteError{Shard: "10.0.0.1:7", Err: store.ErrUnavailable})))
				return
			}
		}
	}
}

// A broken scan ends a reset that nobody is asked about, unless it is to go on. Whoever is asked
// is told in the question.
func TestAResetAfterABrokenScan(t *testing.T) {
	for name, test := range map[string]struct {
		consent, keepGoing bool
		changed            int64
		question           string
	}{
		"a consent given before": {consent: true},
		"to keep going":          {consent: true, keepGoing: true, changed: 2},
		"asked": {changed: 2,
			question: "Not all keys could be looked at: those of 10.0.0.1:7 and 10.0.0.2:7 are missing. Delete 2 keys all the same"},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newSite(t), &watcher{}
			for i := range 3 {
				s.take(t, i, 3)
			}
			s.Store = &failingScan{Store: s.memory, after: 2}
			plan := s.planToReset(t)
			plan.Consent.Yes, plan.KeepGoing = test.consent, test.keepGoing
			result, err := s.Reset(t.Context(), plan, w)
			if result == nil || result.Matched != 2 || result.Changed != test.changed || !store.IsAway(result.Incomplete) ||
				strings.Join(result.Missing(), " ") != "10.0.0.1:7 10.0.0.2:7" || w.selected.Incomplete == nil {
				t.Fatalf("it came to %+v, %v, and showed %+v", result, err, w.selected)
			}
			if (len(w.questions) > 0) != (test.question != "") || test.question != "" && w.questions[0].Text != test.question {
				t.Errorf("it asked %+v", w.questions)
			}
			if test.changed > 0 {
				if !errors.Is(err, outcome.ErrPartly) || !strings.HasSuffix(err.Error(), "(2 of about 3 keys looked at, 2 matched)") ||
					s.log.entries[0].Outcome != auditlog.Partly {
					t.Errorf("it ended with %v; the audit log has %+v", err, s.log.entries)
				}
				return
			}
			if incomplete := (*BrokenScanError)(nil); !errors.As(err, &incomplete) || errors.Is(err, outcome.ErrPartly) ||
				!store.IsAway(err) || !strings.HasSuffix(err.Error(), "(2 of about 3 keys looked at, nothing was changed)") {
				t.Errorf("it ended with %v", err)
			}
			s.checkUntouched(t, 3)
		})
	}
}

func TestAScanThatFindsNothingAndFails(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.Store = &failingScan{Store: s.memory, after: 1}
	plan := s.planToReset(t)
	plan.Selection.Keep = func(*admin.Entry) bool { return false }
	result, err := s.Reset(t.Context(), plan, &watcher{})
	if result == nil || result.Matched != 0 || !store.IsAway(result.Incomplete) || !store.IsAway(err) ||
		!strings.HasSuffix(err.Error(), "(1 of about 3 keys looked at, nothing was changed)") {
		t.Errorf("it came to %+v, %v", result, err)
	}
	s.checkUntouched(t, 1)
}

// A foreign value is left and told, and the others are reset.
func TestAResetBesideAForeignValue(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.Store = &failingScan{Store: s.memory, foreign: true}
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if result == nil || result.Matched != 1 || result.Changed != 1 || !errors.Is(err, outcome.ErrPartly) ||
		!errors.Is(err, store.ErrForeign) {
		t.Errorf("it came to %+v, %v", result, err)
	}
}

// A value that became foreign after the scan is left and told, and the others are reset.
func TestAValueThatBecomesForeign(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.take(t, "b", 3)
	s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (int, []admin.Record, error) {
		n, late, err := do(records[1:]...)
		return n, late, errors.Join(err, &store.ForeignError{StoreKey: "rl:{x}:n", Holds: "a list"})
	}}
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if result == nil || result.Matched != 2 || result.Changed != 1 || !errors.Is(err, outcome.ErrPartly) ||
		!errors.Is(err, store.ErrForeign) {
		t.Errorf("it came to %+v, %v", result, err)
	}
}

// That the audit log could not be written does not hide how the reset ended.
func TestATrailThatCannotBeWritten(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.log.endFail = os.ErrPermission
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if result == nil || result.Changed != 1 || !errors.Is(err, os.ErrPermission) || !errors.Is(err, outcome.ErrPartly) {
		t.Errorf("it came to %+v, %v", result, err)
	}
}

func TestRefund(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 7)
	result, err := s.Refund(t.Context(), &RefundPlan{Requests: []store.Request{{Key: key("a"), Limit: tenAnHour, Cost: 3}}}, &watcher{})
	if err != nil || result.Decisions[0].Used != 4 || s.used(t, "a") != 4 {
		t.Errorf("it came to %+v, %v", result, err)
	}
	s.Store = &brokenStore{Store: s.memory, decide: func([]store.Request) error { return store.ErrUnavailable }}
	if result, err := s.Refund(t.Context(), &RefundPlan{}, &watcher{}); result != nil || !store.IsAway(err) {
		t.Errorf("without a store it came to %+v, %v", result, err)
	}
}

// farFuture is a store where one key expires later than a backup can say.
type farFuture struct{ connect.Store }

func (f *farFuture) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		for entry, err := range f.Store.Scan(ctx, q) {
			if entry.Key == key("far") {
				entry.Record.Expires = time.UnixMilli(1 << 60)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// A key whose record cannot be brought back stays, and that is said.
func TestAKeyThatNoBackupHoldsStays(t *testing.T) {
	s := newSite(t)
	s.take(t, "far", 3)
	s.take(t, "near", 3)
	s.Store = &farFuture{s.memory}
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if !errors.Is(err, outcome.ErrPartly) || !strings.Contains(err.Error(), "1 key could not be kept") || result.Changed != 1 {
		t.Errorf("it came to %+v, %v", result, err)
	}
	if s.used(t, "far") != 3 || s.used(t, "near") != 0 {
		t.Errorf("%d and %d are in use", s.used(t, "far"), s.used(t, "near"))
	}
}
