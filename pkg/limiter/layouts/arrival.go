package layouts

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// GCRA keeps one time, when the next unit would be due if all units were evenly spaced: the
// theoretical arrival time. With a limit of n units a period p and a burst b, units are p/n
// apart. What is in use is how far the arrival time is ahead of now, in such intervals. Four
// limiters keep it in ns since 1970, and count in whole ns. Their differences are in their own files.

// spacing is how far apart the units of a limit are, and how far ahead of now the arrival time
// may be, both in ns.
type spacing struct{ interval, tolerance int64 }

// spacingOf returns the spacing of a limit with an interval, which each limiter rounds down to
// ns. ok is false for a limit that they cannot have, since it has more units than ns.
func spacingOf(limit *store.Limit, interval int64) (s spacing, ok bool) {
	if interval <= 0 || limit.Capacity() > math.MaxInt64/interval {
		return spacing{}, false
	}
	return spacing{interval, interval * limit.Capacity()}, true
}

// wholeInterval is the interval of limiters that divide whole numbers.
func wholeInterval(limit *store.Limit) int64 { return int64(limit.Period) / limit.Count }

// arrivalOf reads an arrival time in ns since 1970. One of before 2001 is none: it would have
// fewer digits.
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

// arrivalEntry is the entry of a limiter that keeps an arrival time in ns since 1970. It is in
// the limiters' own steps, for one unit. interval says how far apart a limit's units are, in ns.
func arrivalEntry(found *Found, interval func(*store.Limit) int64) (entry admin.Entry, s spacing, err error) {
	arrival, err := arrivalOf(&found.Values[0])
	if err != nil {
		return entry, s, err
	}
	entry = admin.Entry{Limit: withAlgorithm(found.Limit, store.TokenBucket), UsedUnknown: true, ResetTold: true}
	ahead := max(0, arrival-nanoseconds(found.Now))
	entry.ResetAfter = time.Duration(ahead)
	ok := entry.LimitKnown()
	if ok {
		s, ok = spacingOf(&entry.Limit, interval(&entry.Limit))
	}
	if !ok {
		return entry, s, nil
	}
	left := s.tolerance - ahead
	entry.UsedUnknown = false
	entry.Remaining = max(0, left/s.interval)
	entry.Used = ahead / s.interval
	if ahead%s.interval > 0 {
		entry.Used++
	}
	if entry.Allowed = left >= s.interval; !entry.Allowed {
		entry.RetryAfter = time.Duration(s.interval - left)
	}
	return entry, s, nil
}

// withAlgorithm returns the given part of a limit, with a default algorithm and burst.
func withAlgorithm(said store.Limit, algorithm store.Algorithm) store.Limit {
	if said.Algorithm == 0 && said != (store.Limit{}) {
		said.Algorithm = algorithm
	}
	if said.Burst == 0 {
		said.Burst = said.Count
	}
	return said
}

// agrees reports whether a key is kept for as long as it is expected to be, give or take.
func agrees(expected, ttl, by time.Duration) bool {
	return ttl >= 0 && ttl >= expected-clocksDiffer && ttl <= expected+by+clocksDiffer
}

// notA says that a value has another type than the limiter's.
func notA(is ValueType, expected ...ValueType) error {
	text := string(expected[0])
	for _, other := range expected[1:] {
		text += " or " + string(other)
	}
	return fmt.Errorf("a %s, not a %s", is, text)
}
