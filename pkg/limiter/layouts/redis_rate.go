package layouts

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// redisRate is github.com/go-redis/redis_rate from v8 on: a bucket in the form of GCRA. A
// string holds the theoretical arrival time, in seconds since the beginning of 2017. The
// fixed windows of earlier versions are [redisRateWindows].
type redisRate struct{ single }

const (
	// redisRateEpoch is 2017-01-01T00:00:00Z, in seconds since 1970.
	redisRateEpoch = 1_483_228_800
	// redisRateFirst is before the first release that keeps times, of 2020: what is less is a
	// count of an earlier one.
	redisRateFirst = 98_000_000
)

// Info implements [Layout]. The facts are from github.com/go-redis/redis_rate 8eadf45e.
func (redisRate) Info() Info {
	return Info{
		Name: "redis_rate", Writer: "go-redis/redis_rate v8 to v10", Example: "rate:project:123",
		Prefixes: []string{"rate:"}, KeepsArrival: true, Needs: "the limit and the burst",
	}
}

// Match implements [Layout]. The prefix cannot be changed, but a client can put one before it.
func (redisRate) Match(storeKey string, asked bool) (store.Key, bool) {
	subject, ok := cutPrefix(storeKey, "rate:", asked)
	return store.Key{Subject: subject, Name: "redis_rate"}, ok && subject != ""
}

// cutPrefix returns what follows a limiter's usual prefix. Asked, there may be something before
// the prefix, too.
func cutPrefix(storeKey, prefix string, asked bool) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(storeKey, prefix); ok || !asked {
		return rest, ok
	}
	_, rest, ok = strings.Cut(storeKey, prefix)
	return rest, ok
}

// redisRateSteps are those of the script of v9.1 and later, in floats as in Lua, so that the
// results are those of the library, to the last bit. Times are in seconds.
type redisRateSteps struct{ now, arrival, interval, tolerance float64 }

func stepsOf(limit *store.Limit, arrival float64, at store.Instant) redisRateSteps {
	const second = 1_000_000
	s := redisRateSteps{now: float64(int64(at)/second-redisRateEpoch) + float64(int64(at)%second)/second, arrival: arrival}
	if limit.Count > 0 {
		s.interval = limit.Period.Seconds() / float64(limit.Count)
		s.tolerance = s.interval * float64(limit.Capacity())
	}
	s.arrival = max(s.arrival, s.now)
	return s
}

// take returns how many units are left after some more, and how long ago these would have been
// allowed.
func (s redisRateSteps) take(units float64) (left, since float64) {
	arrival := s.arrival + s.interval*units
	since = s.now - (arrival - s.tolerance)
	return since / s.interval, since
}

// luaSeconds is what the library makes of seconds that its script returns: 14 digits.
func luaSeconds(seconds float64) time.Duration {
	seconds, _ = strconv.ParseFloat(strconv.FormatFloat(seconds, 'g', 14, 64), 64)
	return time.Duration(seconds * float64(time.Second))
}

// Decode implements [Layout].
func (redisRate) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	if value.Type != StringValue {
		return Reading{}, notA(value.Type, StringValue)
	}
	arrival, err := strconv.ParseFloat(string(value.Text), 64)
	if err != nil || !(arrival >= redisRateFirst && arrival <= math.MaxInt32) {
		return Reading{}, errors.New("not a time in seconds since 2017")
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true, ResetTold: true}
	steps := stepsOf(&entry.Limit, arrival, found.Now)
	entry.ResetAfter = luaSeconds(steps.arrival - steps.now)
	if entry.LimitKnown() {
		left, _ := steps.take(0)
		after, since := steps.take(1)
		entry.UsedUnknown = false
		heldEntry(&entry, left)
		if entry.ResetAfter == 0 { // floats can say of a full bucket that it is not quite
			entry.Used = 0
		}
		if entry.Allowed = after >= 0; !entry.Allowed {
			entry.RetryAfter = luaSeconds(-since)
		}
	}
	// The key is kept until the arrival time, rounded up to seconds.
	return lifetime{needed: entry.ResetAfter, passes: true}.reading(found, entry, agrees(entry.ResetAfter, value.TTL, time.Second))
}
