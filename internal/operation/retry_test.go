package operation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// warned makes a site keep its warnings.
func (s *site) warned() *[]string {
	var warnings []string
	s.Warn = func(err error) { warnings = append(warnings, err.Error()) }
	return &warnings
}

// How the errors of changes end that a store without an answer has ended.
const (
	resetEndsWith     = "; run it again for the rest, with --timeout 30s if the server is slow)"
	overwriteEndsWith = "; a second run also changes the keys that are done, which forgets what was used of them since)"
)

// A batch whose answer is lost is tried again. What its keys held is in the backup, and not what was
// used of them between the two tries.
func TestADeletionWhoseAnswerIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		carriedOut int // of the first batch, before the answer is lost
		told       int // of these
		err        error
	}{
		"all":            {keysPerBatch, 0, store.ErrOutcomeUnknown},
		"some":           {100, 0, store.ErrOutcomeUnknown},
		"none":           {0, 0, store.ErrOutcomeUnknown},
		"not reached":    {0, 0, store.ErrUnavailable},
		"some and a key": {100, 100, store.ErrUnavailable}, // that is used again, and counts once
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.takeMany(t)
			warnings, tries := s.warned(), 0
			s.Store = &brokenStore{Store: s.memory, delete: func(do deleting, records []admin.Record) (
				int, []admin.Record, error) {
				if tries++; tries > 1 {
					return do(records...)
				}
				if _, _, err := do(records[:test.carriedOut]...); err != nil {
					t.Error(err)
				}
				if test.carriedOut > 0 { // all is left of it otherwise
					s.take(t, records[0].Key.Subject, 1)
				}
				return test.told, nil, test.err
			}}
			began := s.now
			result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
			if err != nil || result.Changed != many || result.Unknown != 0 || tries != 3 ||
				s.now.Sub(began) != firstPause {
				t.Fatalf("after %d tries and %s it came to %+v, %v", tries, s.now.Sub(began), result, err)
			}
			if len(*warnings) != 1 || !strings.HasSuffix((*warnings)[0], "; trying again for up to 1m0s") {
				t.Errorf("it warned of %q", *warnings)
			}
			if entry := s.log.entries[0]; entry.Changed != many || entry.Unknown != 0 || entry.Outcome != "done" {
				t.Errorf("the audit log has %+v", entry)
			}
			s.Store = s.memory
			if n := s.inUse(t); n != 0 {
				t.Errorf("%d keys are in use", n)
			}
			restored := s.restoreAll(t, result.Backup)
			if restored.Changed != many || s.used(t, 0) != 3 || s.used(t, many-1) != 3 {
				t.Errorf("of the backup come back %+v, and %d and %d units", restored, s.used(t, 0), s.used(t, many-1))
			}
		})
	}
}

// An adjustment is tried again for those keys of which the store has not said what became of them, and
// all of them come back as they were.
func TestAnAdjustmentWhoseAnswerIsLost(t *testing.T) {
	for name, test := range map[string]struct{ told, carriedOut int }{
		"all told":    {keysPerBatch, keysPerBatch},
		"some told":   {100, 100},
		"more done":   {100, 300},
		"nothing was": {0, 0},
		"untold":      {0, keysPerBatch},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.now = time.Now() // as the store has it
			s.takeMany(t)
			s.take(t, "same", 1)
			var tried []int
			s.Store = &brokenStore{Store: s.memory, adjust: func(do adjusting, adjustments []admin.Adjustment) (
				[]admin.Adjusted, error) {
				if tried = append(tried, len(adjustments)); len(tried) > 1 {
					return do(adjustments...)
				}
				results, err := do(adjustments[:test.carriedOut]...)
				return results[:test.told], errors.Join(err, store.ErrOutcomeUnknown)
			}}
			plan := s.planToReset(t)
			plan.Remaining = &Remaining{Units: 9}
			result, err := s.Reset(t.Context(), plan, &watcher{})
			if err != nil || result.Effect != (Effect{Gain: many, Stay: 1}) || result.Changed != many ||
				result.Unknown != 0 ||
				tried[1] != keysPerBatch-test.told {
				t.Fatalf("after %v it came to %+v, %v", tried, result, err)
			}
			s.Store = s.memory
			s.restoreAll(t, result.Backup)
			for i := range many {
				if used := s.used(t, i); used != 3 {
					t.Fatalf("%d units of key %d come back", used, i)
				}
			}
		})
	}
}

// A restore is tried again for those records of which the store has not said what became of them.
func TestARestoreWhoseAnswerIsLost(t *testing.T) {
	for _, replace := range []bool{false, true} {
		s := newSite(t)
		s.take(t, "a", 1)
		s.take(t, "b", 2)
		path := s.reset(t)
		tries := 0
		s.Store = &brokenStore{Store: s.memory, importing: func(do importing, records []admin.Record) (
			[]admin.ImportOutcome, error) {
			if tries++; tries > 1 {
				return do(records...)
			}
			outcomes, err := do(records[0])
			return append(outcomes, admin.NotKnown), errors.Join(err, store.ErrOutcomeUnknown)
		}}
		result, err := s.Restore(t.Context(),
			&RestorePlan{Backup: s.opened(t, path), Replace: replace, Consent: Consent{Yes: true}},
			&watcher{})
		if err != nil || *result != restored(2, 2) || s.used(t, "a") != 1 || s.used(t, "b") != 2 || tries != 2 {
			t.Errorf("replace %v: after %d tries it came to %+v, %v", replace, tries, result, err)
		}
	}
}
