package layers

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Stats are the figures of the wrappers around a store at one moment. Those of a wrapper that is
// not there are zero.
type Stats struct {
	// Breakers is the state of each part's breaker. A store in one piece has one part, whose
	// name is empty. It is nil without [WithBreaker].
	Breakers map[string]BreakerState
	// LeasedKeys is how many keys [WithLeases] holds units of ahead, and LeasedUnits how many.
	LeasedKeys, LeasedUnits int64
	// LocalKeys is how many keys the shadow of [WithFailure] holds, in memory or in a store
	// that has a method Len() int.
	LocalKeys int64
	// Denials is how many denials [DenialMemory.Wrap] repeats.
	Denials int64
}

// StatsOf returns the figures of the wrappers around a store, the outermost of each kind. It takes
// the time of a walk through what they remember, so it is for a scrape and not for each call.
func StatsOf(s store.Store) Stats {
	var stats Stats
	if breaker, has := store.As[*breakerStore](s); has {
		stats.Breakers = breaker.states()
	}
	if leases, has := store.As[*leaseStore](s); has {
		stats.LeasedKeys, stats.LeasedUnits = leases.held()
	}
	if failure, has := store.As[*failurePolicyStore](s); has {
		if shadow, counts := store.As[interface{ Len() int }](failure.Shadow); counts {
			stats.LocalKeys = int64(shadow.Len())
		}
	}
	if memory, has := store.As[*denialMemory](s); has {
		stats.Denials = memory.repeated()
	}
	return stats
}

// states returns the state of each part.
func (s *breakerStore) states() map[string]BreakerState {
	states := map[string]BreakerState{}
	for part, c := range *s.parts.Load() {
		states[part] = BreakerState(c.shown.Load())
	}
	if whole := BreakerState(s.whole.shown.Load()); len(states) == 0 || whole != BreakerClosed {
		states[""] = whole // otherwise it is of the time in which no part was known
	}
	return states
}

// held returns how many keys there are units of, and how many units.
func (s *leaseStore) held() (keys, units int64) {
	s.keys.each(func(k *leasedKey) {
		if l := k.current.Load(); l != nil {
			if left := l.left.Load(); left > 0 {
				keys, units = keys+1, units+left
			}
		}
	})
	return keys, units
}

// repeated returns how many denials are repeated now.
func (s *denialMemory) repeated() (denials int64) {
	now := s.time.now()
	s.denials.each(func(d *denial) {
		if now < d.until {
			denials++
		}
	})
	return denials
}

// each calls f with each value.
func (t *keyTable[T]) each(f func(*T)) {
	for i := range t.sets {
		for j := range t.sets[i].slots {
			if k := t.sets[i].slots[j].Load(); k != nil {
				f(&k.value)
			}
		}
	}
}
