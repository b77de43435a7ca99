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
	capacity, rate := float64(entry.Limit.Capacity()), float64(entry.Limit.Count)/float64(entry.Limit.Period)
	tokens = min(capacity, tokens+float64(max(0, ago))*rate)
	heldEntry(&entry, tokens)
	entry.ResetAfter = durationOf((capacity - tokens) / rate)
	if entry.Allowed = tokens >= 1; !entry.Allowed {
		entry.RetryAfter = durationOf(math.Ceil((1 - tokens) / rate))
	}
	return entry
}

// heldEntry fills in what follows of the tokens that a bucket holds now. They can be negative.
func heldEntry(entry *limiter.Entry, tokens float64) {
	whole := int64(math.Floor(max(tokens, -limiter.MaxUsage)))
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
