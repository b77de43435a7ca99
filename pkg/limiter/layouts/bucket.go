package layouts

import (
	"math"
	"math/bits"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// bucketEntry is the entry of a token bucket that held so many tokens a while ago.
func bucketEntry(found *Found, tokens float64, ago time.Duration) admin.Entry {
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true}
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
func heldEntry(entry *admin.Entry, tokens float64) {
	whole := toInt64(math.Floor(max(tokens, -store.MaxUsage)))
	entry.UsedUnknown = false
	entry.Remaining = max(0, whole)
	entry.Used = entry.Limit.Capacity() - whole
}

// repeated returns n of a duration, neither less than 0, or the longest duration if they are more.
func repeated(n int64, d time.Duration) time.Duration {
	if high, low := bits.Mul64(uint64(n), uint64(d)); high == 0 && low <= math.MaxInt64 {
		return time.Duration(low)
	}
	return math.MaxInt64
}

// plus adds durations, of which b is not less than 0, up to the longest duration.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// durationOf returns so many ns, or the longest duration if they are more.
func durationOf(nanoseconds float64) time.Duration {
	if nanoseconds >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(nanoseconds)
}

// ceilMicroseconds rounds ns up to whole µs.
func ceilMicroseconds(ns float64) time.Duration {
	return repeated(toInt64(math.Ceil(max(0, ns)/float64(time.Microsecond))), time.Microsecond)
}
