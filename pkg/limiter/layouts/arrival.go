package layouts

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// GCRA keeps one time, when the next unit would be due if all units were evenly spaced: the theoretical arrival time.
// With a limit of n units a period p and a burst b, units are p/n apart. What is in use is how far the arrival time
// is ahead of now, in such intervals.

// arrivalOf reads an arrival time in ns since 1970. One of before 2001 is none: it would have fewer digits.
func arrivalOf(value *Value) (arrival int64, err error) {
	const digits = 19
	if value.Type != StringValue {
		return 0, notA(value.Type, StringValue)
	}
	arrival, err = strconv.ParseInt(string(value.Text), 10, 64)
	if err != nil || value.Length != digits || value.Text[0] == '-' || value.Text[0] == '+' {
		return 0, errors.New("not a time in nanoseconds since 1970")
	}
	return arrival, nil
}

// nanoseconds returns an instant in ns since 1970.
func nanoseconds(i store.Instant) int64 { return int64(i) * int64(time.Microsecond) }

// arrival decodes an arrival time in ns since 1970, in the limiters' own steps for one unit.
func (r *row) arrival(found *Found) (Reading, error) {
	arrival, err := arrivalOf(&found.Values[0])
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true, ResetTold: true}
	ahead := max(0, arrival-nanoseconds(found.Now))
	entry.ResetAfter = time.Duration(ahead)
	if interval := r.interval(&entry.Limit); interval > 0 && entry.Limit.Capacity() <= math.MaxInt64/interval {
		left := interval*entry.Limit.Capacity() - ahead
		entry.UsedUnknown = false
		entry.Remaining = max(0, left/interval)
		// of Dragonfly it is ns
		if micros := int64(time.Microsecond); r.micros && interval >= micros && left > -interval {
			entry.Remaining = max(0, int64(float64(left/micros)/float64(interval/micros)))
		}
		if entry.Used = ahead / interval; ahead%interval > 0 {
			entry.Used++
		}
		if entry.Allowed = left >= interval; !entry.Allowed {
			entry.RetryAfter = time.Duration(interval - left)
		}
	}
	return lifetime{passes: true}.reading(found, entry, r.certain != nil && r.certain(found, arrival))
}

// interval is how far apart the units of a limit are in ns, 0 if that is not known or there are more units than ns.
func (r *row) interval(limit *store.Limit) int64 {
	switch {
	case limit.Algorithm == 0 || limit.Count <= 0:
		return 0
	case r.micros: // a quotient of floats, which is not the same for periods of months
		return int64(float64(limit.Period) / float64(limit.Count))
	}
	return int64(limit.Period) / limit.Count
}

// isThrottleds reports whether a key is the middleware's of throttled, and kept until the arrival time in it, which
// is rounded down to seconds, but for one at least. Others write the same value under keys of any form.
func isThrottleds(found *Found, arrival int64) bool {
	ahead := time.Duration(arrival - nanoseconds(found.Now))
	return !isNotThrottleds(found.StoreKey) && ahead >= -time.Second &&
		agrees(max(0, ahead-time.Second), found.Values[0].TTL, 2*time.Second)
}

const (
	// redisRateEpoch is 2017-01-01T00:00:00Z, in seconds since 1970.
	redisRateEpoch = 1_483_228_800
	// redisRateFirst is before the first release that keeps times, of 2020: what is less is a count of an earlier one.
	redisRateFirst = 98_000_000
)

// decodeRedisRate reads an arrival time in seconds since the beginning of 2017. The steps are those of the script of
// v9.1 and later, in floats as in Lua, so that the results are those of the library, to the last bit.
func decodeRedisRate(_ *row, found *Found) (Reading, error) {
	const second = 1_000_000
	value := &found.Values[0]
	if value.Type != StringValue {
		return Reading{}, notA(value.Type, StringValue)
	}
	arrival, err := strconv.ParseFloat(string(value.Text), 64)
	if err != nil || !(arrival >= redisRateFirst && arrival <= math.MaxInt32) {
		return Reading{}, errors.New("not a time in seconds since 2017")
	}
	entry := admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true, ResetTold: true}
	now := float64(int64(found.Now)/second-redisRateEpoch) + float64(int64(found.Now)%second)/second
	arrival = max(arrival, now)
	entry.ResetAfter = luaSeconds(arrival - now)
	if entry.LimitKnown() {
		interval := entry.Limit.Period.Seconds() / float64(entry.Limit.Count)
		tolerance := interval * float64(entry.Limit.Capacity())
		heldEntry(&entry, (now-(arrival-tolerance))/interval)
		if entry.ResetAfter == 0 { // floats can say of a full bucket that it is not quite
			entry.Used = 0
		}
		since := now - (arrival + interval - tolerance)
		if entry.Allowed = since/interval >= 0; !entry.Allowed {
			entry.RetryAfter = luaSeconds(-since)
		}
	}
	// The key is kept until the arrival time, rounded up to seconds.
	return lifetime{passes: true}.reading(
		found, entry, agrees(entry.ResetAfter, value.TTL, time.Second))
}

// luaSeconds is what the library makes of seconds that its script returns: 14 digits.
func luaSeconds(seconds float64) time.Duration {
	seconds, _ = strconv.ParseFloat(strconv.FormatFloat(seconds, 'g', 14, 64), 64)
	return time.Duration(seconds * float64(time.Second))
}
