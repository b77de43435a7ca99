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

// The Python library limits has the whole limit at the end of its keys:
// "<prefix><namespace>/<ids>/<amount>/<multiple>/ <unit>", where the prefix is key_prefix and a colon, which version
// 2 does not have, and the ids may have slashes, too. The type of the value tells the strategy: a string is a fixed
// window, which begins with its first request, a list of times a moving window, and a string under a key in braces a
// sliding window counter, with that of the window before under the key with "/-1" behind.
const limitsEnd = `[^/]*/(?P<subject>.+)/(?P<amount>[1-9]\d*)/(?P<multiple>[1-9]\d{0,8})/(?P<unit>[a-z]+)`

var limitsKey, limitsSliding = keysLike(`^` + limitsEnd + `$`), keysLike(`^[^{]*\{` + limitsEnd + `\}(?:/-1)?$`)

// limitsUnits are the units of periods. A month has 30 days, and a year twelve of these.
var limitsUnits = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "month": 30 * day, "year": 360 * day,
}

// parseLimits returns the key of an entry and its limit. Of a sliding window its algorithm is set.
func parseLimits(storeKey string) (key store.Key, limit store.Limit, ok bool) {
	const longest = math.MaxInt64 / 4 // that windows can be counted with, in ns
	g := groupsOf(limitsSliding, storeKey)
	if g != nil {
		limit.Algorithm = store.SlidingCounter
	} else {
		g = groupsOf(limitsKey, storeKey)
	}
	amount, err := strconv.ParseInt(g["amount"], 10, 64)
	multiple, _ := strconv.ParseInt(g["multiple"], 10, 64)
	unit := limitsUnits[g["unit"]]
	if err != nil || unit == 0 || multiple > longest/int64(unit) {
		return key, limit, false
	}
	limit.Count, limit.Burst, limit.Period = amount, amount, time.Duration(multiple)*unit
	return store.Key{Subject: g["subject"], Name: "limits/" + g["amount"] + "/" + g["multiple"] + "/" + g["unit"]},
		limit, true
}

func matchLimits(storeKey string, _ bool) (store.Key, bool) {
	key, _, ok := parseLimits(storeKey)
	return key, ok
}

// isLimits reports whether a store key has a usual prefix. Nobody else writes the limit into the key like that.
func isLimits(storeKey string) bool {
	return strings.HasPrefix(storeKey, "LIMITS:") || strings.HasPrefix(storeKey, "LIMITER/")
}

func decodeLimits(_ *row, found *Found) (Reading, error) {
	_, limit, _ := parseLimits(found.StoreKey)
	value := &found.Values[0]
	kept := lifetime{longest: limit.Period, never: "alisaifee/limits#15"}
	var entry admin.Entry
	var err error
	switch {
	case limit.Algorithm == store.SlidingCounter:
		kept.longest *= 2
		entry, err = slidingLimits(found, limit)
	case value.Type == StringValue: // denied requests count, too
		var count int64
		count, err = countOf(value)
		entry = countEntry(fromFirst(limit), count, value.TTL)
	case value.Type == ListValue:
		limit.Algorithm, kept.passes = store.SlidingLog, true
		entry, err = movingLimits(found, limit)
	default:
		err = notA(value.Type, StringValue, ListValue)
	}
	if err != nil {
		return Reading{}, err
	}
	return kept.reading(found, entry, isLimits(found.StoreKey))
}

// movingLimits reads a list of the clients' times, the newest first, of which the limiter looks at the first ones, up
// to its amount. A request is allowed if the unit that it would push out of them is older than the period.
func movingLimits(found *Found, limit store.Limit) (admin.Entry, error) {
	members, all := found.Values[0].Members, found.Values[0].Length
	entry := admin.Entry{Limit: limit}
	now, period := float64(found.Now)/1e6, limit.Period.Seconds()
	last, oldest := 0.0, now
	for i := range members {
		at, err := strconv.ParseFloat(members[i].Name, 64)
		switch {
		case err != nil || !(at >= 0 && at <= math.MaxUint32):
			return entry, errors.New("a list with a member that is not a time")
		case int64(i) >= limit.Count:
			continue
		case at >= now-period:
			entry.Used++
			oldest = at
		}
		last = at
	}
	read := int64(len(members))
	if all > read && limit.Count > read {
		entry.UsedUnknown = true // too many to read
		return entry, nil
	}
	entry.Remaining = max(0, limit.Count-entry.Used)
	if entry.Allowed = min(all, read) < limit.Count || last < now-period; !entry.Allowed { // else just after that
		entry.RetryAfter = time.Duration(max(0, math.Floor((last+period-now)*1e6))+1) * time.Microsecond
	}
	if entry.Used > 0 {
		entry.ResetAfter = wholeMicros(oldest + period - now)
	}
	return entry, nil
}

// wholeMicros returns a duration of seconds, not less than 0.
func wholeMicros(seconds float64) time.Duration {
	return time.Duration(max(0, math.Round(seconds*1e6))) * time.Microsecond
}

// slidingLimits reads two counters. That of the window before is weighed by what is left of its TTL. The counter of
// this window has been that of the window before since a period before its end.
func slidingLimits(found *Found, limit store.Limit) (admin.Entry, error) {
	entry := admin.Entry{Limit: limit, ResetTold: true}
	counts, err := countsOf(found.Values)
	if err != nil {
		return entry, err
	}
	current, previous, period := max(0, counts[0]), max(0, counts[1]), limit.Period
	currentEnds, previousEnds := max(0, found.Values[0].TTL), max(0, found.Values[1].TTL)
	if found.Values[0].Type != NoValue && found.Values[0].TTL < period {
		previous, previousEnds, current, currentEnds = current, currentEnds, 0, currentEnds+period
	}
	weighed := float64(previous)*float64(previousEnds.Milliseconds())/float64(period.Milliseconds()) + float64(current)
	entry.Used = toInt64(math.Floor(weighed))
	entry.Remaining = max(0, limit.Count-entry.Used)
	if previous > 0 { // when it weighs a unit less
		entry.ResetAfter = wholeMicros(math.Mod(previousEnds.Seconds(), period.Seconds()/float64(previous)))
	}
	if ends := currentEnds % period; current > 0 && (previous == 0 || ends < entry.ResetAfter) {
		entry.ResetAfter = ends
	}
	// share is the part of a period that units are of all, more than them, in whole milliseconds.
	share := func(units, all int64) time.Duration {
		ms, _ := mulDiv(units, period.Milliseconds(), 0, all)
		return time.Duration(ms) * time.Millisecond
	}
	room := limit.Count - 1
	switch entry.Allowed = weighed+1 <= float64(limit.Count); {
	case entry.Allowed:
	case current > room: // it has to become the window before
		entry.RetryAfter = currentEnds - share(room, current)
	case previous > 0:
		entry.RetryAfter = previousEnds - share(room-current, previous)
	}
	return entry, nil
}
