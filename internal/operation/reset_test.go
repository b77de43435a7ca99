package operation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Whatever keeps a reset from beginning, no key is changed, and no file and no line of the audit log is left.
func TestAResetThatDoesNotBegin(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(s *site, w *watcher, plan *ResetPlan)
		is      func(error) bool
		says    string
	}{
		"a no": {func(_ *site, w *watcher, _ *ResetPlan) { w.answer = errNo }, func(err error) bool {
			return errors.Is(err, errNo)
		}, "no"},
		"a protected context, and a no to its question": {func(s *site, w *watcher, plan *ResetPlan) {
			s.Place.Access = Access{Context: "prod", Protected: true}
			w.answer, plan.Consent.Yes = errNo, true
		}, func(err error) bool { return errors.Is(err, errNo) }, "no"},
		"a read-only context": {func(s *site, _ *watcher, plan *ResetPlan) {
			s.Place.Access = Access{Context: "prod", ReadOnly: true}
			plan.Consent = Consent{Yes: true, Context: "prod"}
		}, func(err error) bool { return errors.Is(err, store.ErrInvalid) },
			`context "prod" is read-only; a reset writes, so it was not done`},
		"an audit log that cannot be opened": {
			func(s *site, _ *watcher, _ *ResetPlan) { s.log.openErr = os.ErrPermission },
			func(err error) bool { return errors.Is(err, os.ErrPermission) }, ""},
		"an interrupt at its question": {func(_ *site, w *watcher, _ *ResetPlan) { w.interrupts = true },
			func(err error) bool { return errors.Is(err, context.Canceled) }, "(nothing was changed)"},
		"more remaining than one of two limits fits": {func(s *site, _ *watcher, plan *ResetPlan) {
			large := store.Limit{Count: 100, Period: tenAnHour.Period}
			if _, err := storecall.New(s.memory).Take(context.Background(), key("large"), large, 1); err != nil {
				panic(err)
			}
			plan.Remaining, plan.Selection.Query = &Remaining{Units: 50},
				admin.Query{Keys: []store.Key{key("large"), key("a")}}
		}, func(err error) bool { return errors.Is(err, store.ErrInvalid) }, "50 remaining is more than limit"},
		"a file where the backup is to be": {func(s *site, _ *watcher, plan *ResetPlan) { plan.Backup.Path = s.dir },
			func(err error) bool { return errors.Is(err, store.ErrInvalid) }, "exists"},
		"no directory for the backup": {
			func(s *site, _ *watcher, plan *ResetPlan) { plan.Backup.Path = filepath.Join(s.dir, "none", "b") },
			func(err error) bool { return errors.Is(err, store.ErrInvalid) }, "no backup can be kept: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newSite(t), &watcher{}
			s.take(t, "a", 3)
			plan := s.planToReset(t)
			test.prepare(s, w, plan)
			keys := s.inUse(t)
			ctx, cancel := context.WithCancel(t.Context())
			if w.interrupts {
				w.onConfirm = cancel
			}
			result, err := s.Reset(ctx, plan, w)
			cancel()
			if result != nil || err == nil || !test.is(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it came to %+v, %v", result, err)
			}
			s.checkUntouched(t, keys)
		})
	}
}

// many are more keys than a batch has.
const many = keysPerBatch + 100

func (s *site) takeMany(t *testing.T) {
	t.Helper()
	for i := range many {
		s.take(t, i, 3)
	}
}

// How the errors of changes end that a store without an answer has ended, those of resets with the last.
const (
	resetEndsWith     = "; run it again for the rest, with --timeout 30s if the server is slow"
	undoEndsWith      = "; to undo all, undo each run, the last one first"
	overwriteEndsWith = "; a second run also changes the keys that are done, which forgets what was used of them since"
)

// Wherever a reset is cut, what was deleted before is counted and in the backup, and the audit log says how it ended.
// Nothing can have been changed in a store that was never reached, so that no backup is kept; but it can if the answer
// did not come. Nobody is told to undo what a store has refused.
func TestAResetThatIsCut(t *testing.T) {
	away, unknown, refused := store.ErrUnavailable, store.ErrOutcomeUnknown, store.ErrRefused
	for name, test := range map[string]struct {
		many             bool    // keys, or one
		errs             []error // of the deletions, one after the other
		interrupted      bool
		changed, unknown int64
		is               error
		outcome          auditlog.Outcome
		kept, told       bool // the backup
		says             string
	}{
		"away in the middle": {true, []error{nil, away}, false, keysPerBatch, 0, outcome.ErrPartly, auditlog.Partly,
			true,
			true, "(500 of 600 keys done" + resetEndsWith + undoEndsWith + ")"},
		"never reached": {false, []error{away}, false, 0, 0, away, auditlog.Failed, false, false, "(0 of 1 key done)"},
		"no answer": {true, []error{unknown}, false, 0, keysPerBatch, unknown, auditlog.Failed, true, true,
			"(0 of 600 keys known to be done" + resetEndsWith + undoEndsWith + ")"},
		"refused": {false, []error{refused}, false, 0, 0, refused, auditlog.Failed, true, false, "(0 of 1 key done)"},
		"interrupted in a batch": {true, []error{nil}, true, keysPerBatch, 0, context.Canceled, auditlog.Interrupted,
			true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, batches := newSite(t), 0
			s.take(t, 0, 3)
			if test.many {
				s.takeMany(t)
			}
			keys := s.inUse(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (
				int, []admin.Record, error) {
				if test.interrupted {
					cancel()
				}
				if batches++; test.errs[batches-1] != nil {
					return 0, nil, test.errs[batches-1]
				}
				return do(records...)
			}}
			result, err := s.Reset(ctx, s.planToReset(t), &watcher{})
			if result == nil || result.Matched != keys || result.Changed != test.changed ||
				result.Unknown != test.unknown || (result.Backup != "") != test.told || batches != len(test.errs) {
				t.Fatalf("after %d batches it came to %+v", batches, result)
			}
			if !errors.Is(err, test.is) || errors.Is(err, outcome.ErrPartly) != (test.changed > 0) ||
				!strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("the error is %v", err)
			}
			kept, e := len(s.left(t)) > 0, s.log.entries[0]
			if kept != test.kept || (e.Backup != "") != kept || e.Outcome != test.outcome || e.Matched != keys ||
				e.Changed != test.changed || e.Unknown != test.unknown || e.Error != "described: "+err.Error() {
				t.Errorf("a backup is kept: %v; the audit log has %+v", kept, e)
			}
			if n := s.inUse(t); n != keys-test.changed {
				t.Errorf("%d keys are left", n)
			}
			if s.Store = s.memory; test.told {
				if restored := s.restoreAll(t, result.Backup); restored.Changed != test.changed {
					t.Errorf("of the backup come back %+v", restored)
				}
			}
		})
	}
}

// What is used between the scan and the deletion is in the backup, too. Keys that somebody else deletes meanwhile are
// left, and a record that was damaged meanwhile does not replace the sound one.
func TestTheBackupHasWhatWasDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, s *site) // after the scan
		delete    func(t *testing.T, do deleting, records []admin.Record) (int, []admin.Record, error)
		gone, a   int64
	}{
		"used since": {meanwhile: func(t *testing.T, s *site) { s.take(t, "a", 2) }, a: 5},
		"gone meanwhile": {meanwhile: func(t *testing.T, s *site) {
			if _, _, err := s.memory.Delete(t.Context(), admin.Record{Key: key("b")}); err != nil {
				t.Error(err)
			}
		}, gone: 1, a: 3},
		"damaged since": {a: 3, delete: func(t *testing.T, do deleting, records []admin.Record) (
			int, []admin.Record, error) {
			deleted, _, err := do(records...)
			damaged := admin.Record{Key: key("a"), Value: []byte("\x02damaged")}
			if damaged.Check() == nil {
				t.Error("the record is not damaged")
			}
			return deleted, []admin.Record{damaged}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.take(t, "a", 3)
			s.take(t, "b", 4)
			broken := &brokenStore{Store: s.memory}
			if test.delete != nil {
				broken.delete = func(do deleting, records []admin.Record) (int, []admin.Record, error) {
					return test.delete(t, do, records)
				}
			}
			s.Store = broken
			result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{onSelected: func() {
				if test.meanwhile != nil {
					test.meanwhile(t, s)
				}
			}})
			if err != nil || result.Matched != 2 || result.Changed != 2-test.gone {
				t.Fatalf("it came to %+v, %v", result, err)
			}
			s.Store = s.memory
			if b := s.opened(t, result.Backup); b.Damaged > 0 || b.Records != 2 {
				t.Errorf("the backup has %d records and %d damaged lines", b.Records, b.Damaged)
			}
			if s.restoreAll(t, result.Backup); s.used(t, "a") != test.a || s.used(t, "b") != 4 {
				t.Errorf("%d and %d units come back", s.used(t, "a"), s.used(t, "b"))
			}
		})
	}
}

// A foreign value, and one that became foreign after the scan, is left and told, and the others are reset.
func TestAResetBesideAForeignValue(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.take(t, "b", 3)
	s.Store = &brokenStore{Store: &failingScan{Store: s.memory, foreign: true},
		delete: func(do deleting, records []admin.Record) (int, []admin.Record, error) {
			n, late, err := do(records[1:]...)
			return n, late, errors.Join(err, &store.ForeignError{StoreKey: "rl:{x}:n", Holds: "a list"})
		}}
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if result == nil || result.Matched != 2 || result.Changed != 1 || !errors.Is(err, outcome.ErrPartly) ||
		!errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "rl:{f}:n") ||
		!strings.Contains(err.Error(), "rl:{x}:n") {
		t.Errorf("it came to %+v, %v", result, err)
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

// A scan that could not look at all keys ends a reset.
func TestAResetAfterABrokenScan(t *testing.T) {
	s, w := newSite(t), &watcher{}
	for i := range 3 {
		s.take(t, i, 3)
	}
	s.Store = &failingScan{Store: s.memory, after: 2}
	result, err := s.Reset(t.Context(), s.planToReset(t), w)
	if result != nil || errors.Is(err, outcome.ErrPartly) || !store.IsAway(err) || len(w.questions) > 0 ||
		!strings.HasSuffix(err.Error(), "(2 of about 3 keys looked at, nothing was changed)") {
		t.Errorf("it came to %+v, %v, and asked %+v", result, err, w.questions)
	}
	s.checkUntouched(t, 3)
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
	if !errors.Is(err, outcome.ErrPartly) || !strings.Contains(err.Error(), "1 key could not be kept") ||
		result.Changed != 1 {
		t.Errorf("it came to %+v, %v", result, err)
	}
	if s.used(t, "far") != 3 || s.used(t, "near") != 0 {
		t.Errorf("%d and %d are in use", s.used(t, "far"), s.used(t, "near"))
	}
}
