// Package storetest is the conformance suite of stores: it tests each law of a decision for every kind of limit. A
// store passes if
//
//	storetest.Run(t, harness)
//
// does. Logic is tested in virtual time with random requests, concurrency on the
// store's own clock.
//
// The two methods of [store.Store] are enough. A store that is an [admin.Keyspace], or has denials, a journal, an
// identity or overrides, has to keep their laws, too.
package storetest

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Harness makes stores of the kind under test.
type Harness struct {
	// New returns an empty store that decides by clock, or by its own clock if clock is nil. Tests close some of
	// them; the test's cleanup closes all others.
	New func(tb testing.TB, clock func() time.Time) store.Store
	// Dump returns all that the store keeps, including expiries, in any form that is equal exactly if nothing was
	// written. Without it the suite does not check whether something was.
	Dump func(tb testing.TB, backend store.Store) string
	// Plant puts a foreign value under key, and returns a function that reports whether it is still there
	// unchanged. It is nil for a store that only its own process can write to.
	Plant func(tb testing.TB, backend store.Store, key store.Key, value string) (intact func() bool)
	// Prefix returns the prefix of a store's keys; nil means the default.
	Prefix func(backend store.Store) string
	// DropsEnded: what has ended also leaves Dump, without a call.
	DropsEnded bool
	// Sequences is the number of random sequences that are compared with the reference, for each kind of limit:
	// many for a store with its own implementation. With -short it is a hundredth of them.
	Sequences int
}

// dump is Dump, or constant without one.
func (h *Harness) dump(tb testing.TB, backend store.Store) string {
	if h.Dump == nil {
		return ""
	}
	return h.Dump(tb, backend)
}

// scan returns the store's Scan, or nothing if it has none.
func scan(ctx context.Context, backend store.Store, q admin.Query) iter.Seq2[admin.Entry, error] {
	if keys, has := admin.KeyspaceOf(backend); has {
		return keys.Scan(ctx, q)
	}
	return func(func(admin.Entry, error) bool) {}
}

// newKeys is New for stores that are a Keyspace.
func (h *Harness) newKeys(tb testing.TB, clock func() time.Time) admin.Keyspace {
	keys, _ := admin.KeyspaceOf(h.New(tb, clock))
	return keys
}

func (h *Harness) storeKey(backend store.Store, key store.Key) string {
	prefix := store.DefaultPrefix
	if h.Prefix != nil {
		prefix = h.Prefix(backend)
	}
	return admin.OwnLayout(prefix).StoreKey(key)
}

// Run runs the suite. For a store that is not an [admin.Keyspace] it omits the laws of one.
func Run(t *testing.T, h Harness) {
	_, hasKeys := admin.KeyspaceOf(h.New(t, nil))
	for _, law := range []struct {
		name string
		test func(*testing.T, Harness, store.Kind)
		keys bool // it is about a Keyspace, and hardly depends on the kind
	}{
		{"Law01_DeniedConsumesNothing", deniedConsumesNothing, false},
		{"Law02_PeekNeverWrites", peekNeverWrites, false},
		{"Law03_AllOrNothing", allOrNothing, false},
		{"Law04_RetryAfterIsExact", retryAfterIsExact, false},
		{"Law05_RemainingIsExact", remainingIsExact, false},
		{"Law06_AbsentMeansUnused", absentMeansUnused, false},
		{"Law07_TimeNeverRunsBackwards", timeNeverRunsBackwards, false},
		{"Law08_ChangingALimitKeepsItsUsage", changingALimitKeepsItsUsage, false},
		{"Law10_CostThatNeverFitsIsAnError", costThatNeverFitsIsAnError, false},
		{"Law11_ConcurrentTakesEqualASerialOrder", concurrentTakesEqualASerialOrder, false},
		{"Law12_ForeignDataIsNotTouched", foreignDataIsNotTouched, false},
		{"At", decisionsAreDated, false},
		{"Refund", refundGivesBack, false},
		{"LateRefund", lateRefundDoesNothing, false},
		{"Adjust", adjustLeavesExactly, false},
		{"Shadow", shadowNeverDenies, false},
		{"Token", tokenChargesOnce, false},
		{"TokenIsForgotten", tokenIsForgotten, false},
		{"Charge", chargeExceedsTheCapacity, false},
		{"ChargeIsBounded", chargeIsBounded, false},
		{"ChargedRecords", recordsAboveTheCapacityComeBack, false},
		{"Settle", settleBringsToTheRealCost, false},
		{"TakeUpTo", takeUpToGrantsWhatFits, false},
		{"Leave", leaveKeepsUnitsFree, false},
		{"LeaveTogether", eachLimitHasItsOwnLeave, false},
		{"LeaveIsIgnored", leaveIsForTakes, false},
		{"Keyspace", keyspaceFindsAndDeletes, true},
		{"KeyspaceDirectly", keyspaceReachesKeysDirectly, true},
		{"KeyspaceRecords", keyspaceBringsRecordsBack, true},
		{"KeyspaceAdjusts", keyspaceAdjusts, true},
		{"KeyspaceAdjustsAnyState", keyspaceAdjustsAnyState, true},
		{"MatchesTheReference", matchesTheReference, false},
	} {
		if law.keys && !hasKeys {
			continue
		}
		t.Run(law.name, func(t *testing.T) {
			kinds := store.Kinds()
			if law.keys && testing.Short() { // a state of two numbers, and a ring
				kinds = slices.DeleteFunc(kinds, func(kind store.Kind) bool {
					return kind.Algorithm() != store.TokenBucket && kind.Algorithm() != store.SlidingLog
				})
			}
			for _, kind := range kinds {
				t.Run(kind.String(), func(t *testing.T) {
					t.Parallel()
					law.test(t, h, kind)
				})
			}
		})
	}
	t.Run("Calendar", func(t *testing.T) { calendarWindows(t, h) })
	t.Run("Closed", func(t *testing.T) { closed(t, h) })
	t.Run("Denials", func(t *testing.T) { denials(t, h) })
	t.Run("Identity", func(t *testing.T) { identity(t, h) })
	t.Run("Journal", func(t *testing.T) { journal(t, h) })
	t.Run("Overrides", func(t *testing.T) { overrides(t, h) })
	t.Run("Published", func(t *testing.T) { published(t, h) })
}
