package store

import "time"

// bucket: a level that rises by the cost of each request and leaks at count ÷ period; a request is allowed when its
// cost still fits under the burst. That is the token bucket seen from the other side (level = burst − tokens), and GCRA
// in units instead of time, so in any span of time T at most burst + T × count ÷ period units get through.
//
// A leaky bucket is the same, seen as a queue of at most burst units: an allowed request also has a delay, its turn to
// leave, and a caller that waits it out sends at an even rate.
//
// The level is Units + Rest ÷ period, exactly, as it was at s.Time. The twin is lua/token_bucket.lua.
type bucket struct{ wholeUnits }

// level returns what has not leaked at now.
func (bucket) level(s *State, now Instant) (units, fraction int64) {
	if now == s.Time {
		return s.Units, s.Rest
	}
	period := s.Limit.period()
	leaked, leakedRest := mulAddDiv(int64(now-s.Time), s.Limit.Count, 0, period)
	units, fraction = s.Units-leaked, s.Rest-leakedRest
	if fraction < 0 {
		units, fraction = units-1, fraction+period
	}
	if units < 0 {
		return 0, 0
	}
	return units, fraction
}

func (b bucket) used(s *State, now Instant) int64 {
	units, fraction := b.level(s, now)
	if fraction > 0 {
		units++
	}
	return units
}

// The level is room or less once the excess over room has leaked:
// (units − room + fraction ÷ period) × period ÷ count after s.Time.
func (bucket) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units < room {
		return now
	}
	return max(now, s.Time+Instant(mulAddDivCeil(s.Units-room, s.Limit.period(), s.Rest, s.Limit.Count)))
}

func (b bucket) age(s *State, now Instant) {
	s.Units, s.Rest = b.level(s, now)
	s.Time = now
}

func (bucket) refund(s *State, cost int64) {
	if s.Units -= cost; s.Units < 0 {
		s.Units, s.Rest = 0, 0
	}
}

// isOverfull reports whether the level of a bucket was above its burst, as only a [Charge] or a [Settle] leaves it.
func (s *State) isOverfull() bool {
	return s.Limit.Algorithm.HasBurst() && (s.Units > s.Limit.Burst || s.Units == s.Limit.Burst && s.Rest > 0)
}

// Delay returns how long a request that limit allows at now waits for its turn: in a leaky bucket until everything
// in the queue has left at the rate of limit, and otherwise not at all.
func (s *State) Delay(limit *Limit, now Instant) time.Duration {
	if limit.Algorithm != LeakyBucket || s.IsZero() {
		return 0
	}
	clock := s.clock(now)
	units, fraction := s.Used(now), int64(0)
	if s.Limit.Algorithm == limit.Algorithm && s.Limit.Period == limit.Period {
		units, fraction = bucket{}.level(s, clock)
	}
	return now.Until(clock + Instant(mulAddDivCeil(units, limit.period(), fraction, limit.Count)))
}
