package layouts

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostPerSecond is about as many requests as a server counts under one key in a second.
const mostPerSecond = 100_000

// isPlausible reports whether what was read of a key can be of the limit that an operator says. A
// pattern such as "rl:*" is also of keys that its author did not think of: a version, a date, a time.
// So not more may be in use than can have come in a period, and the key may not stay for much longer
// than that. One that never expires can be the limiter's, since that is how counters break most often,
// unless it counts for nothing: then nobody is denied by it, and leaving it does no harm.
func (c *candidate) isPlausible() bool {
	if c.reading.Certain {
		return true
	}
	for i := range c.reading.Entries {
		e := &c.reading.Entries[i]
		longest := longestUse(&e.Limit)
		forEver := false
		for j := range c.found.Values {
			value := &c.found.Values[j]
			kept := lifetime{longest: longest}
			switch {
			case value.Type == NoValue:
			case value.TTL < 0:
				forEver = true
			case kept.isAbsurd(value.TTL) && !kept.inMilliseconds(value.TTL):
				return false
			}
		}
		tooMuch := e.LimitKnown() && (e.Used-e.Limit.Capacity())/mostPerSecond > int64(longest/time.Second)
		if forEver && isUnused(e) || !forEver && e.UsedKnown() && tooMuch {
			return false
		}
	}
	return true
}

// longestUse is for how long units of a limit can count: a period, or until a bucket is full. It is 0 if
// that is not known.
func longestUse(limit *store.Limit) time.Duration {
	if limit.Period <= 0 || limit.Count <= 0 {
		return 0
	}
	return durationOf(math.Ceil(float64(limit.Capacity())/float64(limit.Count)) * float64(limit.Period))
}
