package foreign

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// bucketEntry is the entry of a token bucket that held so many tokens a while ago.
func bucketEntry(found *Found, tokens float64, ago time.Duration) limiter.Entry {
	entry := limiter.Entry{Limit: withAlgorithm(found.Limit, limiter.TokenBucket), UsedUnknown: true}
	if !entry.LimitKnown() {
		return entry
	}
	capacity, interval := float64(entry.Limit.Capacity()), float64(entry.Limit.Period)/float64(entry.Limit.Count)
	ago = max(0, ago)
	held := min(capacity, tokens+float64(ago)/interval)
	heldEntry(&entry, held)
	if held < capacity {
		entry.ResetAfter = durationOf(math.Ceil((capacity-tokens)*interval)) - ago
	}
	if entry.Allowed = held >= 1; !entry.Allowed {
		entry.RetryAfter = durationOf(math.Ceil((1-tokens)*interval)) - ago
	}
	return entry
}

// heldEntry fills in what follows of the tokens that a bucket holds now. They can be negative.
func heldEntry(entry *limiter.Entry, tokens float64) {
	whole := toInt64(math.Floor(max(tokens, -limiter.MaxUsage)))
	entry.UsedUnknown = false
	entry.Remaining = max(0, whole)
	entry.Used = entry.Limit.Capacity() - whole
}

// durationOf returns so many ns, or the longest duration if they are more.
func durationOf(nanoseconds float64) time.Duration {
	if nanoseconds >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanoseconds)
}
