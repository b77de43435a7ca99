package foreign

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// arrivalEntry is the entry of a limiter that keeps a theoretical arrival time, in ns since
// 1970, as GCRA has it. With the limit as count n, period p and burst b, the emission interval
// is p/n; what is in use is how far the arrival time is ahead of now, in such intervals,
// rounded up.
func arrivalEntry(arrival int64, found *Found) limiter.Entry {
	now := int64(found.Now) * int64(time.Microsecond)
	ahead := max(0, arrival-now)
	entry := limiter.Entry{Limit: withAlgorithm(found.Limit, limiter.TokenBucket), UsedUnknown: true, ResetTold: true}
	entry.ResetAfter = time.Duration(ahead)
	if !entry.LimitKnown() {
		return entry
	}
	capacity, interval := entry.Limit.Capacity(), float64(entry.Limit.Period)/float64(entry.Limit.Count)
	left := int64(float64(capacity) - float64(ahead)/interval)
	entry.UsedUnknown = false
	entry.Remaining = max(0, left)
	entry.Used = capacity - left
	if entry.Allowed = left >= 1; !entry.Allowed {
		entry.RetryAfter = time.Duration(float64(ahead) - float64(capacity-1)*interval)
	}
	return entry
}

// withAlgorithm returns what is said of a limit, as one of an algorithm unless it says which.
func withAlgorithm(said limiter.Limit, algorithm limiter.Algorithm) limiter.Limit {
	if said.Algorithm == 0 && said != (limiter.Limit{}) {
		said.Algorithm = algorithm
	}
	if said.Burst == 0 {
		said.Burst = said.Count
	}
	return said
}

// agrees reports whether a key is kept for as long as it is expected to be, give or take.
func agrees(expected, ttl, by time.Duration) bool {
	const clocks = 2 * time.Second // those of clients and servers differ
	return ttl >= 0 && ttl >= expected-clocks && ttl <= expected+by+clocks
}

// notA says that a value has another type than the limiter's.
func notA(is ValueType, expected ...ValueType) error {
	text := string(expected[0])
	for _, other := range expected[1:] {
		text += " or " + string(other)
	}
	return fmt.Errorf("a %s, not a %s", is, text)
}
