package store

// leakyBucket: a queue that lets requests go at the constant rate count ÷ period
// and holds up to burst units of them. What is allowed and how the level leaks
// is the token bucket's rule; here an allowed request also has a delay, its turn
// to leave, and a caller that waits it out sends at an even rate.
//
// The twin is lua/token_bucket.lua, too: a delay changes no state, so Go derives
// it from what the script returns.
type leakyBucket struct{ tokenBucket }

var leakyBucketPage = page{
	name: "leaky-bucket", algorithm: LeakyBucket, rule: leakyBucket{}, hasBurst: true, maxCount: MaxCount,
	stateSize: tokenBucketPage.stateSize, recordsOf: Kind(TokenBucket), queue: leakyBucket{}, fadesBy: tokenBucketPage.fadesBy,
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
