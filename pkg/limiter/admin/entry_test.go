package admin_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// What is known about an entry follows from what is known about its limit and its usage.
func TestWhatIsKnownOfAnEntry(t *testing.T) {
	for _, want := range []struct {
		subject                                        string
		used, capacity, limit, remaining, retry, reset bool
		atLimit                                        bool
		share                                          float64
		text                                           string
	}{
		{"whole", true, true, true, true, true, true, true, 1, "fixed-window:10/1m"},
		{"no-period", true, true, false, true, false, true, false, 0.9, "fixed-window:10/?"},
		{"no-count", true, false, false, false, false, true, false, 0, "fixed-window:?/1m"},
		{"used-only", true, false, false, false, false, true, false, 0, "unknown"},
		{"silent", false, false, false, false, false, false, false, 0, "unknown"},
	} {
		found := false
		for _, e := range storetest.NotAllKnown() {
			if e.Key.Subject != want.subject {
				continue
			}
			found = true
			got := [...]bool{e.UsedKnown(), e.CapacityKnown(), e.LimitKnown(), e.RemainingKnown(), e.RetryKnown(),
				e.ResetKnown(), e.AtLimit()}
			if got != [...]bool{want.used, want.capacity, want.limit, want.remaining, want.retry, want.reset, want.atLimit} {
				t.Errorf("%s: known are %v, want %+v", want.subject, got, want)
			}
			if share, known := e.Share(); share != want.share || known != want.remaining {
				t.Errorf("%s: a share of %v, known %v", want.subject, share, known)
			}
			if text := e.LimitText(); text != want.text {
				t.Errorf("%s: its limit is %q, want %q", want.subject, text, want.text)
			}
		}
		if !found {
			t.Errorf("there is no entry %s", want.subject)
		}
	}
}

// A copy of a state does not change with the state.
func TestACloneOfAStateIsItsOwn(t *testing.T) {
	now := store.Instant(1_700_000_000_000_000)
	for _, kind := range store.Kinds() {
		limit, err := storetest.LimitOf(kind, 100, time.Minute).Normalize()
		if err != nil {
			t.Fatal(err)
		}
		var s store.State
		s.Charge(limit, 5, now)
		clone := s.Clone()
		s.Charge(limit, 3, now)
		s.Charge(limit, 2, now+1_000_000)
		if got := clone.Used(now); got != 5 || !clone.IsShort() {
			t.Errorf("%s: the copy has %d in use, want 5; short: %v", kind, got, clone.IsShort())
		}
	}
}
