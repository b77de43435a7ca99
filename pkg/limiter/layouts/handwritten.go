package layouts

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Many services have a limiter that somebody wrote after a text about rate limiting, and not a
// library. Three forms of them are layouts: token-hash, time-set and counter. Each has keys of
// any name, and what they hold is common, so a layout hardly ever takes a key for its own
// without being asked: an integer with an expiry can be anything, and so can a sorted set of
// times.

// isNamedLikeALimiter reports whether a key has a word in it that limiters' keys have. Other
// keys are not worth a warning that they may be a limiter's.
func isNamedLikeALimiter(storeKey string) bool {
	lower := strings.ToLower(storeKey)
	for _, word := range [...]string{"ratelimit", "rate_limit", "rate-limit", "rate:", "limiter", "limit:", "throttl", "quota", "rl:"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return false
}

// timeUnits are what times since 1970 are counted in.
var timeUnits = [...]time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond}

// unitOf returns what a time since 1970 is counted in, if it is of the last ten years or of the
// next. There is one unit at most, since the next one is a thousand times as large.
func unitOf(number float64, now store.Instant) (unit time.Duration, ok bool) {
	const oldest, newest = 10 * 366 * 24 * time.Hour, 366 * 24 * time.Hour
	for _, unit := range timeUnits {
		ago := float64(nanoseconds(now)) - number*float64(unit)
		if ago <= float64(oldest) && ago >= -float64(newest) {
			return unit, true
		}
	}
	return 0, false
}

// since returns how long ago a time was that is counted in a unit. Times with a fraction are of
// clocks that count µs, as a float of seconds does not quite.
func since(text string, unit time.Duration, now store.Instant) time.Duration {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil && whole <= math.MaxInt64/int64(unit) {
		return time.Duration(nanoseconds(now) - whole*int64(unit))
	}
	number, _ := strconv.ParseFloat(text, 64)
	whole, part := math.Modf(number)
	if whole > math.MaxInt64/float64(unit) {
		return 0
	}
	return time.Duration(nanoseconds(now)-int64(whole)*int64(unit)) - time.Duration(part*float64(unit)).Round(time.Microsecond)
}
