package store

import (
	"math"
	"time"
)

// tokenBucket: a bucket whose level rises by the cost of each request and leaks
// at count ÷ period; a request is allowed when its cost still fits under the
// burst. That is the token bucket seen from the other side (level = burst −
// tokens), and GCRA in units instead of time (level = (TAT − now) × rate), so
// in any span of time T at most burst + T × count ÷ period units get through.
//
// The level is Units + Rest ÷ period, exactly, as it was at s.Time.
// The twin is lua/token_bucket.lua.
type tokenBucket struct{ wholeUnits }

var tokenBucketDefinition = definition{
	name: "token-bucket", algorithm: TokenBucket, rule: tokenBucket{}, hasBurst: true, maxCount: MaxCount, stateSize: 11,
	ahead:   tokenBucket{},
	fadesBy: tokenBucket{}.fadesBy,
}

// level returns what has not leaked at now.
func (tokenBucket) level(s *State, now Instant) (units, fraction int64) {
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

func (b tokenBucket) used(s *State, now Instant) int64 {
	units, fraction := b.level(s, now)
	if fraction > 0 {
		units++
	}
	return units
}

// The level is room or less once the excess over room has leaked:
// (units − room + fraction ÷ period) × period ÷ count after s.Time.
func (tokenBucket) usedAtMost(s *State, room int64, now Instant) Instant {
	if s.Units < room {
		return now
	}
	wait := mulAddDivCeil(s.Units-room, s.Limit.period(), s.Rest, s.Limit.Count)
	return max(now, s.Time+Instant(wait))
}

// The last room units leak in room × period ÷ count.
func (tokenBucket) fadesBy(limit Limit, room int64) time.Duration {
	wait, _ := mulAddDiv(room, limit.period(), 0, limit.Count)
	return time.Duration(wait) * time.Microsecond
}

func (b tokenBucket) charge(s *State, cost int64, now Instant) {
	s.Units, s.Rest = b.level(s, now)
	s.Units += cost
	s.Time = now
}

func (b tokenBucket) refund(s *State, cost int64, now Instant) {
	s.Units, s.Rest = b.level(s, now)
	s.Time = now
	if s.Units -= cost; s.Units < 0 {
		s.Units, s.Rest = 0, 0
	}
}

// A unit is like any other, so it can be given back at any time, less what leaked.
func (tokenBucket) End(*Limit, Instant) Instant { return math.MaxInt64 }

func (tokenBucket) Leaked(l *Limit, span int64) int64 {
	return mulAddDivCeil(span, l.Count, 0, l.period())
}

// A unit that was not given back is in the bucket until that has been empty.
func (tokenBucket) Gone(*Limit, Instant) Instant { return 0 }

func (tokenBucket) appendState(buf []byte, s *State) []byte {
	return appendUint(appendUint(buf, s.Units, 4), s.Rest, 7)
}

func (tokenBucket) readState(r *recordReader, s *State) (problem string) {
	s.Units, s.Rest = r.uint(4), r.uint(7)
	switch {
	case s.isOverfull() && !r.overfull:
		return "its level is above its burst"
	case s.Rest >= s.Limit.period():
		return "its fraction is not below 1"
	case r.overfull && (!s.isOverfull() || CheckUsage(&s.Limit, s.Used(s.Time)) != nil):
		return usageOutOfRange
	}
	return ""
}

// isOverfull reports whether s is a bucket whose level was above its burst at s.Time, as
// only a [Charge] or a [Settle] can leave it.
func (s *State) isOverfull() bool {
	return definitions[s.Limit.Kind()].hasBurst && (s.Units > s.Limit.Burst || s.Units == s.Limit.Burst && s.Rest > 0)
}

// leakyBucket: a queue that lets requests go at the constant rate count ÷ period
// and holds up to burst units of them. What is allowed and how the level leaks
// is the token bucket's rule; here an allowed request also has a delay, its turn
// to leave, and a caller that waits it out sends at an even rate.
//
// The twin is lua/token_bucket.lua, too: a delay changes no state, so Go derives
// it from what the script returns.
type leakyBucket struct{ tokenBucket }

var leakyBucketDefinition = definition{
	name: "leaky-bucket", algorithm: LeakyBucket, rule: leakyBucket{}, hasBurst: true, maxCount: MaxCount,
	stateSize: tokenBucketDefinition.stateSize, recordsOf: Kind(TokenBucket), queue: leakyBucket{}, fadesBy: tokenBucketDefinition.fadesBy,
}

// turn returns the instant at which everything queued in s by now has left at
// the rate of limit, the one that takes over.
func (b leakyBucket) turn(s *State, limit Limit, now Instant) Instant {
	units, fraction := s.Used(now), int64(0)
	if s.Limit.Algorithm == limit.Algorithm && s.Limit.Period == limit.Period {
		units, fraction = b.level(s, now)
	}
	return now + Instant(mulAddDivCeil(units, limit.period(), fraction, limit.Count))
}
