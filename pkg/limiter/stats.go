package limiter

import "github.com/limitctl/limitctl/internal/layers"

// Stats are figures of a limiter at one moment, for gauges. Those of an option that is not given are zero. What is counted
// call by call comes through the [Observer].
type Stats struct {
	// Breakers is the state of each breaker by its part: a master of a Cluster, or "" for other
	// stores. It is nil without a [Breaker].
	Breakers map[string]BreakerState
	// LeasedKeys is how many keys [Leases] hold units of, and LeasedUnits how many units.
	LeasedKeys, LeasedUnits int64
	// LocalKeys is how many keys [FailLocal] keeps in memory. They come in an outage, and some stay after it. Of the
	// store of a [FailLocalIn] they are what its method Len() int returns, if it has one.
	LocalKeys int64
	// Denials is how many denials the [DenialMemory] repeats.
	Denials int64
}

// Stats returns the figures of this moment. It looks through what the options remember, so call it once in a while, and not
// for each request.
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
