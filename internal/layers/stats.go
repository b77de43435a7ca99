package layers

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Stats are the figures of the layers around a store at one moment. Those of a missing layer are zero.
type Stats struct {
	Breakers                map[string]store.BreakerState // by shard; nil without a breaker
	LeasedKeys, LeasedUnits int64                         // what leases hold in advance
	LocalKeys               int64                         // of the fallback store, if it has a method Len() int
	Denials                 int64                         // that the denial memory repeats
}

// StatsOf returns the figures of the layers around a store, the outermost of each kind. It walks over all that they
// remember, so it is for a scrape and not for each call.
func StatsOf(s store.Store) Stats {
	var stats Stats
	if breaker, has := store.As[*breakerStore](s); has {
		stats.Breakers = breaker.states()
	}
	if leases, has := store.As[*leaseStore](s); has {
		stats.LeasedKeys, stats.LeasedUnits = leases.held()
	}
	if failure, has := store.As[*failurePolicyStore](s); has {
		if fallback, counts := store.As[interface{ Len() int }](failure.Fallback); counts {
			stats.LocalKeys = int64(fallback.Len())
		}
	}
	if memory, has := store.As[*denialMemory](s); has {
		stats.Denials = memory.repeated()
	}
	return stats
}

// states returns the state of each shard.
func (s *breakerStore) states() map[string]store.BreakerState {
	states := map[string]store.BreakerState{}
	for shard, c := range *s.shards.Load() {
		states[shard] = store.BreakerState(c.shown.Load())
	}
	if whole := store.BreakerState(s.whole.shown.Load()); len(states) == 0 || whole != store.BreakerClosed {
		states[""] = whole // otherwise it is from the time before any shard was known
	}
	return states
}

// held returns the number of keys with leased units, and of these units.
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

// repeated returns the number of valid denials.
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
