// Package storetest holds the conformance suite of stores: the laws of a
// decision, each a test of its own, for every kind of limit. A store passes if
//
//	storetest.Run(t, harness)
//
// does. Logic is tested in virtual time with random requests, concurrency on the
// store's own clock.
package storetest

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// Harness makes stores of the kind under test.
type Harness struct {
	// New returns an empty store that decides by clock, or by its own clock if
	// clock is nil. It is closed by the test's cleanup.
	New func(tb testing.TB, clock func() time.Time) limiter.Keyspace
	// Dump returns all that the store keeps, expiries included, in any form
	// that is equal exactly if nothing was written.
	Dump func(tb testing.TB, store limiter.Keyspace) string
	// Plant puts a value that limitctl did not write under key, and returns a
	// function that reports whether it is still there unchanged. It is nil for
	// a store that only its own process can write to.
	Plant func(tb testing.TB, store limiter.Keyspace, key limiter.Key, value string) (intact func() bool)
	// Prefix returns what a store's keys begin with; nil stands for the default.
	Prefix func(store limiter.Keyspace) string
	// DropsEnded: what has ended by itself is gone from Dump, too, with nobody asking for it.
	DropsEnded bool
	// Sequences is how many random sequences are held against the reference,
	// for each kind of limit: many for a store with an implementation of its own. With -short it
	// is a hundredth of them.
	Sequences int
}

func (h *Harness) storeKey(store limiter.Keyspace, key limiter.Key) string {
	prefix := limiter.DefaultPrefix
	if h.Prefix != nil {
		prefix = h.Prefix(store)
	}
	return limiter.OwnLayout(prefix).StoreKey(key)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for _, law := range []struct {
		name string
		test func(*testing.T, Harness, limiter.Kind)
	}{
		{"Law01_DeniedConsumesNothing", deniedConsumesNothing},
		{"Law02_PeekNeverWrites", peekNeverWrites},
		{"Law03_AllOrNothing", allOrNothing},
		{"Law04_RetryAfterIsExact", retryAfterIsExact},
		{"Law05_RemainingIsExact", remainingIsExact},
		{"Law06_AbsentMeansUnused", absentMeansUnused},
		{"Law07_TimeNeverRunsBackwards", timeNeverRunsBackwards},
		{"Law08_ChangingALimitKeepsItsUsage", changingALimitKeepsItsUsage},
		{"Law10_CostThatNeverFitsIsAnError", costThatNeverFitsIsAnError},
		{"Law11_ConcurrentTakesEqualASerialOrder", concurrentTakesEqualASerialOrder},
		{"Law12_ForeignDataIsNotTouched", foreignDataIsNotTouched},
		{"At", decisionsAreDated},
		{"Refund", refundGivesBack},
		{"LateRefund", lateRefundDoesNothing},
		{"Adjust", adjustLeavesExactly},
		{"Shadow", shadowNeverDenies},
		{"Token", tokenChargesOnce},
		{"TokenIsForgotten", tokenIsForgotten},
		{"Charge", chargeExceedsTheCapacity},
		{"ChargeIsBounded", chargeIsBounded},
		{"ChargedRecords", recordsAboveTheCapacityComeBack},
		{"Settle", settleBringsToTheRealCost},
		{"TakeUpTo", takeUpToGrantsWhatFits},
		{"Keyspace", keyspaceFindsAndDeletes},
		{"KeyspaceDirectly", keyspaceReachesKeysDirectly},
		{"KeyspaceRecords", keyspaceBringsRecordsBack},
		{"KeyspaceAdjusts", keyspaceAdjusts},
		{"KeyspaceAdjustsAnyState", keyspaceAdjustsAnyState},
		{"MatchesTheReference", matchesTheReference},
	} {
		t.Run(law.name, func(t *testing.T) {
			for _, kind := range limiter.Kinds() {
				t.Run(kind.String(), func(t *testing.T) {
					t.Parallel()
					law.test(t, h, kind)
				})
			}
		})
	}
	t.Run("Denials", func(t *testing.T) { denials(t, h) })
	t.Run("Identity", func(t *testing.T) { identity(t, h) })
	t.Run("Journal", func(t *testing.T) { journal(t, h) })
	t.Run("Overrides", func(t *testing.T) { overrides(t, h) })
}
