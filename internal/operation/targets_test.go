package operation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A key that is used between the scan and its adjustment is judged by what it then is, and comes back as it then was.
func TestAKeyUsedBeforeItsAdjustment(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	plan := s.planToReset(t)
	plan.Remaining = &Remaining{Units: 5}
	w := &watcher{onSelected: func() { s.take(t, "a", 4) }}
	result, err := s.Reset(t.Context(), plan, w)
	if err != nil || w.selected.Effect != (Effect{Lose: 1}) || result.Effect != (Effect{Gain: 1}) ||
		s.used(t, "a") != 5 {
		t.Fatalf("it came to %+v, %v, %d used", result, err, s.used(t, "a"))
	}
	if s.restoreAll(t, result.Backup); s.used(t, "a") != 7 {
		t.Errorf("%d units come back, and 7 were in use", s.used(t, "a"))
	}
}

// Of the keys of a batch that failed it is counted how many may be changed. Those after it were
// not, and so stay as they are if the others are brought back.
func TestAnAdjustmentThatFailsInTheMiddle(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		s := newSite(t)
		s.takeMany(t)
		ctx, interrupt := context.WithCancel(t.Context())
		var asked []store.Key // by the batch that was begun
		s.Store = &brokenStore{Store: s.memory, adjust: func(do adjusting, adjustments []admin.Adjustment) (
			[]admin.Adjusted, error) {
			for i := range adjustments {
				asked = append(asked, adjustments[i].Key)
			}
			if interrupted {
				interrupt()
				return do(adjustments...)
			}
			results, err := do(adjustments[:100]...)
			return append(results, make([]admin.Adjusted, len(adjustments)-100)...),
				errors.Join(err, store.ErrOutcomeUnknown)
		}}
		plan := s.planToReset(t)
		plan.Remaining = &Remaining{Units: 9}
		result, err := s.Reset(ctx, plan, &watcher{})
		if interrupted {
			if result == nil || result.Changed != keysPerBatch || result.Unknown != 0 ||
				!errors.Is(err, context.Canceled) {
				t.Fatalf("it came to %+v, %v", result, err)
			}
		} else if result == nil || result.Changed != 100 || result.Unknown != keysPerBatch-100 ||
			!errors.Is(err, outcome.ErrPartly) ||
			!strings.HasSuffix(err.Error(), "(100 of 600 keys known to be done"+overwriteEndsWith+undoEndsWith+")") ||
			s.log.entries[0].Outcome != auditlog.Partly {
			t.Fatalf("it came to %+v, %v", result, err)
		}
		s.Store = s.memory
		if backup := s.opened(t, result.Backup); backup.Records != keysPerBatch || len(asked) != keysPerBatch {
			t.Errorf("of %d keys that may be changed %d come back", len(asked), backup.Records)
		}
		if restored := s.restoreAll(t, result.Backup); restored.Changed != result.Changed {
			t.Errorf("of the backup come back %+v", restored)
		}
	}
}

// Several limits of one value of another limiter are one key to delete.
func TestLimitsOfOneValue(t *testing.T) {
	targets := &targets{}
	for _, of := range [][2]string{{"bucket4j/a", "k"}, {"bucket4j/b", "k"}, {"bucket4j/a", "l"}} {
		e := &admin.Entry{Key: store.Key{Subject: "a", Name: of[0]}, Layout: "bucket4j", Limit: tenAnHour}
		e.Record.Members = []admin.Member{{StoreKey: of[1], Type: "hash", Dump: []byte("x")}}
		if err := targets.add(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	if targets.Matched != 2 || len(targets.held.Records) != 2 {
		t.Errorf("%d keys are to be deleted, and %d are held, want 2", targets.Matched, len(targets.held.Records))
	}
}
