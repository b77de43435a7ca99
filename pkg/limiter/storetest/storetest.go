// Package storetest is the conformance suite of stores: it tests each law of a decision for every kind of limit. A
// store passes if
//
//	storetest.Run(t, harness)
//
// does. Logic is tested in virtual time with random requests, concurrency on the
// store's own clock.
//
// The two methods of [store.Store] are enough. A store that is an [admin.Keyspace], or has an
// [admin.SideTable], has to keep their laws, too.
package storetest

import (
	"context"
	"iter"
	"slices"
	"strings"
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
	// Routing: only the laws that depend on which server has a key, for a store that runs all of them on one server.
	Routing bool
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
func (h *Harness) newKeys(tb testing.TB, clock func() time.Time) admin.Adjuster {
	keys, _ := store.As[admin.Adjuster](h.New(tb, clock))
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
	kinds := store.Kinds()
	few := slices.DeleteFunc(store.Kinds(), func(kind store.Kind) bool { // a state of two numbers, and a ring
		return kind.Algorithm() != store.TokenBucket && kind.Algorithm() != store.SlidingLog
	})
	if h.Routing {
		kinds = few
	}
	run := func(name string, kinds []store.Kind, law func(*testing.T, Harness, store.Kind)) {
		t.Run(name, func(t *testing.T) {
			for _, kind := range kinds {
				t.Run(kind.String(), func(t *testing.T) {
					t.Parallel()
					law(t, h, kind)
				})
			}
		})
	}
	for _, l := range laws {
		if !h.Routing || l.limits > 1 || strings.Contains(l.calls, "token") {
			run(l.name, kinds, l.test)
		}
	}
	run("Law11_ConcurrentTakesEqualASerialOrder", kinds, concurrentTakesEqualASerialOrder)
	run("Law12_ForeignDataIsNotTouched", kinds, foreignDataIsNotTouched)
	run("InvalidLimits", few, invalidLimitsAreErrors)
	run("MatchesTheReference", kinds, matchesTheReference)
	if hasKeys { // these hardly depend on the kind
		run("KeptUntilUnused", kinds, keptUntilUnused)
		run("Keyspace", few, keyspaceFindsAndDeletes)
		run("KeyspaceDirectly", few, keyspaceReachesKeysDirectly)
		run("KeyspaceRecords", kinds, keyspaceBringsRecordsBack)
		run("KeyspaceAdjusts", kinds, keyspaceAdjusts)
	}
	t.Run("Calendar", func(t *testing.T) { calendarWindows(t, h) })
	t.Run("Closed", func(t *testing.T) { closed(t, h) })
	t.Run("Tables", func(t *testing.T) { tables(t, h) })
}
