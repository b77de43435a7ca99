package limiter

import "github.com/limitctl/limitctl/internal/layers"

// Stats are figures of a limiter at one moment, for gauges. Those of an option that is not used are zero. The
// [Observer] reports what is counted per call.
type Stats struct {
	// Breakers is the state of each breaker by its part: a master of a Cluster, or "" for other stores. It is nil
	// without a [Breaker].
	Breakers map[string]BreakerState
	// LeasedKeys is the number of keys of which [Leases] hold units, and LeasedUnits the number of these units.
	LeasedKeys, LeasedUnits int64
	// LocalKeys is the number of keys that [FailLocal] keeps in memory. They appear in an outage, and some stay
	// after it. For [FailLocalIn] it is the result of the store's method Len() int, if it has one.
	LocalKeys int64
	// Denials is the number of denials that the [DenialMemory] repeats.
	Denials int64
}

// Stats returns the figures of this moment. It walks over all keys that the options remember, so do not call it for
// each request.
func (l *Limiter) Stats() Stats {
	if l == nil || l.store == nil {
		return Stats{}
	}
	s := layers.StatsOf(l.stacked)
	stats := Stats{LeasedKeys: s.LeasedKeys, LeasedUnits: s.LeasedUnits, LocalKeys: s.LocalKeys, Denials: s.Denials}
	if s.Breakers != nil {
		stats.Breakers = make(map[string]BreakerState, len(s.Breakers))
		for part, state := range s.Breakers {
			stats.Breakers[part] = BreakerState(state)
		}
	}
	return stats
}
