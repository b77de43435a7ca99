package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// opened opens a backup.
func (s *site) opened(t *testing.T, path string) *Backup {
	t.Helper()
	b := must(OpenBackup(path, "rl"))
	t.Cleanup(func() { b.Close() })
	return b
}

// restoreAll restores a backup, whatever is in use.
func (s *site) restoreAll(t *testing.T, path string) *RestoreResult {
	t.Helper()
	return must(s.Restore(t.Context(), &RestorePlan{
		Backup: s.opened(t, path), Replace: true, Consent: Consent{Yes: true}}, &watcher{}))
}

// reset resets all keys, and returns the path of the backup.
func (s *site) reset(t *testing.T) string {
	t.Helper()
	result := must(s.Reset(t.Context(), s.planToReset(t), &watcher{}))
	s.log.entries, s.log.opened, s.log.closed = nil, 0, 0
	return result.Backup
}

func TestAnInterruptedRestore(t *testing.T) {
	s := newSite(t)
	s.takeMany(t)
	path := s.reset(t)
	ctx, interrupt := context.WithCancel(t.Context())
	s.Store = &brokenStore{Store: s.memory, importing: func(do importing, records []admin.Record) (
		[]admin.ImportOutcome, error) {
		interrupt()
		return do(records...)
	}}
	result, err := s.Restore(ctx, &RestorePlan{Backup: s.opened(t, path)}, &watcher{})
	if result == nil || result.Changed != keysPerBatch || !errors.Is(err, context.Canceled) ||
		!strings.HasSuffix(err.Error(), "(500 of 600 records restored)") {
		t.Errorf("it came to %+v, %v", result, err)
	}
	if entry := s.log.entries[0]; entry.Outcome != auditlog.Interrupted || entry.Matched != many ||
		entry.Changed != keysPerBatch || s.inUse(t) != keysPerBatch {
		t.Errorf("the audit log has %+v, and %d keys are in use", entry, s.inUse(t))
	}
}

// An answer that did not come leaves open what became of the last batch.
func TestARestoreThatLosesItsStore(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 1)
	s.take(t, "b", 1)
	path := s.reset(t)
	s.Store = &brokenStore{Store: s.memory, importing: func(do importing, records []admin.Record) (
		[]admin.ImportOutcome, error) {
		if len(records) < 2 {
			return nil, store.ErrOutcomeUnknown
		}
		outcomes, _ := do(records[:1]...)
		return append(outcomes, admin.NotKnown), store.ErrOutcomeUnknown
	}}
	for replace, end := range map[bool]string{false: resetEndsWith, true: overwriteEndsWith} {
		plan := &RestorePlan{Backup: s.opened(t, path), Replace: replace, Consent: Consent{Yes: true}}
		result, err := s.Restore(t.Context(), plan, &watcher{})
		if result == nil || result.Changed+result.Already != 1 || result.Unknown != 1 ||
			!errors.Is(err, outcome.ErrPartly) ||
			!strings.HasSuffix(err.Error(), "(1 of 2 records known to be restored"+end+")") {
			t.Errorf("replace %v: it came to %+v, %v", replace, result, err)
		}
	}
}

// killedReset resets all keys, and returns the backup as it was in the middle of the second batch, which has deleted
// nothing yet: that of a process that was killed there. Those keys and all after them are put back in use.
func (s *site) killedReset(t *testing.T, remaining *Remaining) (path string) {
	t.Helper()
	plan := s.planToReset(t)
	plan.Remaining = remaining
	path = filepath.Join(s.dir, "killed.jsonl")
	killed := fmt.Errorf("killed: %w", store.ErrRefused)
	batches := 0
	second := func() error {
		if batches++; batches < 2 {
			return nil
		}
		text, err := os.ReadFile(plan.Backup.Path)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		return errors.Join(killed, err)
	}
	s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (
		int, []admin.Record, error) {
		if err := second(); err != nil {
			return 0, nil, err
		}
		return do(records...)
	}, adjust: func(do adjusting, adjustments []admin.Adjustment) ([]admin.Adjusted, error) {
		if err := second(); err != nil {
			return nil, err
		}
		return do(adjustments...)
	}}
	if _, err := s.Reset(t.Context(), plan, &watcher{}); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	s.Store, s.log.entries, s.log.opened, s.log.closed = s.memory, nil, 0, 0
	return path
}

// The backup of a reset that was killed says which keys it had not reached. They stay as others have left them since,
// used or deleted, and nobody is told to replace them. Another store has not seen that reset, so it gets all.
func TestARestoreLeavesWhatAKilledResetHadNotReached(t *testing.T) {
	for name, test := range map[string]struct {
		remaining *Remaining
		replace   bool
		other     error
		want      RestoreResult
		first     int64 // used of the first key then, which the reset has changed and somebody has used since
		last      int64 // the same of one that it had not reached
	}{
		"deleted": {nil, false, nil, RestoreResult{Counts: Counts{Changed: 499}, InUse: 1, Already: 500,
			Unreached: 2}, 1, 7},
		"deleted, replaced": {nil, true, nil, RestoreResult{Counts: Counts{Changed: 500}, Already: 500, Unreached: 2},
			3, 7},
		"adjusted": {&Remaining{Units: 10}, false, nil,
			RestoreResult{Counts: Counts{Changed: 500}, Already: 500, Unreached: 2}, 3, 7},
		"elsewhere": {nil, true, errors.New("another"), RestoreResult{Counts: Counts{Changed: 502}, Already: 500}, 3,
			3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			for i := range 2*keysPerBatch + 2 {
				s.take(t, i, 3)
			}
			path := s.killedReset(t, test.remaining)
			var batches [][]admin.Record
			b := s.opened(t, path)
			if _, err := b.file.Seek(0, 0); err != nil {
				t.Fatal(err)
			}
			if err := b.Each(b.file, keysPerBatch, func(batch backup.Batch) error {
				batches = append(batches, batch.Records)
				return nil
			}); err != nil || len(batches) != 3 || len(batches[2]) != 2 {
				t.Fatalf("the backup has %d batches, %v", len(batches), err)
			}
			first, last := batches[0][0].Key.Subject, batches[2][0].Key.Subject
			s.take(t, first, 1)
			s.take(t, last, 4)
			deleted := batches[2][1]
			if _, _, err := s.memory.Delete(t.Context(), deleted); err != nil {
				t.Fatal(err)
			}
			plan := &RestorePlan{Backup: s.opened(t, path), Replace: test.replace, IntoOther: test.other,
				Consent: Consent{Yes: true}}
			result, err := s.Restore(t.Context(), plan, &watcher{})
			test.want.Matched = 2*keysPerBatch + 2
			left := (*UsedSinceError)(nil)
			if result == nil || *result != test.want || errors.As(err, &left) != (test.want.InUse > 0) {
				t.Errorf("it came to %+v, %v; want %+v", result, err, test.want)
			}
			if used := s.used(t, first); used != test.first {
				t.Errorf("%d of the first key are in use, want %d", used, test.first)
			}
			if used := s.used(t, last); used != test.last {
				t.Errorf("%d of a key that was not reached are in use, want %d", used, test.last)
			}
			if used := s.used(t, deleted.Key.Subject); used != 0 && test.other == nil {
				t.Errorf("%d of a key are in use that somebody else deleted", used)
			}
		})
	}
}

// A backup goes back into the store that it came from, and into no other unless that is
// asked for. The first reset gives the store its id, and writes it into the backup.
func TestRestoreIntoItsOwnStore(t *testing.T) {
	s := newSite(t)
	const address = "redis a:1 db 0"
	s.Address = address
	s.take(t, "a", 3)
	path := s.reset(t)
	id, _ := s.memory.StoreID(t.Context())
	b := s.opened(t, path)
	if !admin.IsStoreID(id) || b.StoreID != id || b.Address != address || b.Records != 1 {
		t.Fatalf("the store has the id %q, and the backup is %+v", id, b.Header)
	}
	result, err := s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if err != nil || result.Changed != 1 {
		t.Errorf("into its own store: %+v, %v", result, err)
	}
	s.Address = "redis b:1 db 0"
	_, err = s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "of another store") ||
		len(s.log.entries) > 2 {
		t.Errorf("at another address with the same id: %v", err)
	}
	isOrigin, own, foreign := must(s.IsOrigin(t.Context())), b.Header, b.Header
	own.Address, foreign.Address, foreign.StoreID = s.Address, s.Address, strings.Repeat("0", len(id))
	s.memory.Close()
	if !isOrigin(&own) || isOrigin(&foreign) {
		t.Error("the store is asked once for each backup, or its id is not compared")
	}
	if err := s.CheckOrigin(t.Context(), b); !errors.Is(err, store.ErrClosed) ||
		!strings.HasPrefix(err.Error(), "nobody can tell") {
		t.Errorf("where the store does not answer: %v", err)
	}
	if _, err := s.IsOrigin(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("whose backups they are, where the store does not answer: %v", err)
	}
	s.memory = newSite(t).memory
	s.Store = s.memory
	_, other := s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	if !errors.Is(other, store.ErrInvalid) ||
		!strings.HasSuffix(other.Error(), "is a backup of another store, memory, and this is memory") {
		t.Errorf("in another store: %v", other)
	}
	if id, _ := s.memory.StoreID(t.Context()); id != "" {
		t.Error("the refusal has given the store an id")
	}
	w := &watcher{}
	result, err = s.Restore(t.Context(), &RestorePlan{Backup: b, IntoOther: other}, w)
	if err != nil || result.Changed != 1 || w.questions[0].Text != other.Error()+". Restore 1 key into it" {
		t.Errorf("in another store, as was asked: %+v, %v", result, err)
	}
	_, err = s.Restore(t.Context(), &RestorePlan{Backup: b}, &watcher{})
	here, _ := s.memory.StoreID(t.Context())
	if !errors.Is(err, store.ErrInvalid) || !strings.HasSuffix(err.Error(), ", memory, and this is memory") ||
		here == id {
		t.Errorf("two ids: %v", err)
	}
}

// What a restore leaves is named by its kind, and counted as failed.
func TestARestoreNamesWhatItLeaves(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 1)
	s.take(t, "b", 2)
	path := s.reset(t)
	s.Store = &brokenStore{Store: s.memory, importing: func(importing, []admin.Record) ([]admin.ImportOutcome, error) {
		return []admin.ImportOutcome{admin.Foreign, admin.Imported}, nil
	}}
	result, err := s.Restore(t.Context(), &RestorePlan{Backup: s.opened(t, path)}, &watcher{})
	if !errors.Is(err, outcome.ErrPartly) || result.Changed != 1 || result.Failed != 1 ||
		err.Error() != "1 key with values that limitctl did not write: left unchanged" {
		t.Errorf("it came to %+v, %v", result, err)
	}
}
