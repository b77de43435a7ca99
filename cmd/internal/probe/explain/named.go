package explain

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Limits have words for some of what other limiters do differently. ModelOf and Named convert between these words and
// models, so that a limit that was found can be given back.

// ModelOf returns the model of a normalized limit as people write it.
func ModelOf(limit store.Limit) Model {
	m := Model{Limit: limit, Phase: limit.Phase}
	m.Limit.Phase = 0
	if limit.FromFirst && limit.Algorithm == store.SlidingCounter {
		m.Limit.FromFirst = false
		m.Anchored, m.RoundsDown = true, true
	}
	return m
}

// Named returns the limit of a model as people write it, with the words that there are for how it counts. within is
// how exactly the phase is known; it is left out if it is not known exactly enough to be of use. all says that the
// words tell everything but the phase.
func (m *Model) Named(within time.Duration) (limit store.Limit, all bool) {
	limit, by := m.Limit, m.Behaviour
	limit.Phase = 0
	switch {
	case limit.Algorithm == store.SlidingCounter && limit.Slices == 0 && m.Anchored && !m.RoundsNearest:
		limit.FromFirst = true
		by.Anchored, by.RoundsDown = false, false
	case m.IsAligned() && limit.Slices == 0 && !limit.Algorithm.HasBurst():
		limit.Phase = writtenPhase(m.Phase, within, limit.Period)
	}
	return limit, by == Behaviour{}
}

// writtenPhase rounds a phase to no more digits than are known; 0 if nothing is left of it.
func writtenPhase(phase, within, period time.Duration) time.Duration {
	for unit := time.Millisecond; unit <= time.Second && unit <= period/8; unit *= 10 {
		if unit >= 2*within {
			return phase.Round(unit) % period
		}
	}
	return 0
}
