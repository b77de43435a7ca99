package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// redisCell is the command CL.THROTTLE of the module redis-cell for Redis and Valkey, and that
// of Dragonfly: a bucket in the form of GCRA. A string holds the theoretical arrival time in ns
// since 1970. What the command calls max_burst is one less than the burst.
type redisCell struct{ single }

// Info implements [Layout]. The facts are from github.com/brandur/redis-cell 4d423387, github.com/dragonflydb/dragonfly f8eca6d0.
func (redisCell) Info() Info {
	return Info{
		Name: "redis-cell", Writer: "redis-cell for Redis and Valkey, Dragonfly", Example: "user:123",
		KeepsArrival: true, Needs: "the limit and the burst",
	}
}

// Match implements [Layout]. Keys are the caller's.
func (l redisCell) Match(storeKey string, _ bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != ""
}

// redisCellInterval is a quotient of floats, which is not the same for periods of months.
func redisCellInterval(limit *store.Limit) int64 {
	return int64(float64(limit.Period) / float64(limit.Count))
}

// Decode implements [Layout]. No key is Certain, since others write the same value under keys
// of any form.
func (redisCell) Decode(found *Found) (Reading, error) {
	entry, s, err := arrivalEntry(found, redisCellInterval)
	if err != nil {
		return Reading{}, err
	}
	if entry.UsedKnown() {
		// What remains is a quotient of whole µs. Dragonfly's is one of ns.
		left, micros := s.tolerance-int64(entry.ResetAfter), int64(time.Microsecond)
		if s.interval >= micros && left > -s.interval {
			entry.Remaining = max(0, int64(float64(left/micros)/float64(s.interval/micros)))
		}
	}
	return lifetime{needed: entry.ResetAfter, passes: true}.reading(found, entry, false)
}
