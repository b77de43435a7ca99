package layouts

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limits is the Python library limits, which flask-limiter, slowapi and others count with. The
// key has the whole limit at its end. The type of the value tells the strategy: a string is a
// fixed window, which begins with its first request, a list of times a moving window, and a
// string under a key in braces a sliding window counter.
type limits struct{}

const (
	limitsPrefix   = "LIMITS:"
	limitsBare     = "LIMITER/" // the default namespace, which keys of version 2 begin with
	limitsPrevious = "/-1"      // behind the key in braces: the counter of the window before
)

// limitsUnits are the units of periods. A month has 30 days, and a year twelve of these.
var limitsUnits = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": day, "month": 30 * day, "year": 360 * day,
}

// Info implements [Layout]. The facts are from github.com/alisaifee/limits f7d1eef5.
func (limits) Info() Info {
	return Info{
		Name: "limits", Writer: "limits for Python, and with it flask-limiter, slowapi and others",
		Example: "LIMITS:LIMITER/203.0.113.9/index/10/1/minute", Prefixes: []string{limitsPrefix, limitsBare},
		Needs: "nothing",
	}
}

// limitsKey is a parsed store key.
type limitsKey struct {
	counter string // the store key, without what is behind the braces
	braces  bool   // of a sliding window counter
	subject string
	tail    string // the limit, as the key has it
	limit   store.Limit
}

// mostLimits is the longest period in ns that windows can be counted with.
const mostLimits = math.MaxInt64 / 4

// parse reads "<prefix><namespace>/<ids>/<amount>/<multiple>/<unit>". The ids may have slashes,
// too. Version 2 has no prefix.
func (limits) parse(storeKey string, asked bool) (key limitsKey, ok bool) {
	key.counter = storeKey
	rest, usual := strings.CutPrefix(storeKey, limitsPrefix)
	if !usual && !asked && !strings.HasPrefix(storeKey, limitsBare) {
		return key, false
	}
	if _, inside, opened := strings.Cut(rest, "{"); opened && (!usual || rest[0] == '{') {
		inside = strings.TrimSuffix(inside, limitsPrevious)
		if inside, key.braces = strings.CutSuffix(inside, "}"); key.braces {
			rest, key.counter = inside, strings.TrimSuffix(storeKey, limitsPrevious)
		}
	}
	parts := strings.Split(rest, "/")
	n := len(parts)
	if n < 5 { // the namespace, and at least one id
		return key, false
	}
	amount, amountErr := strconv.ParseInt(parts[n-3], 10, 64)
	multiple, err := strconv.ParseInt(parts[n-2], 10, 32)
	unit := limitsUnits[parts[n-1]]
	if amountErr != nil || err != nil || amount < 1 || multiple < 1 || unit == 0 || multiple > mostLimits/int64(unit) {
		return key, false
	}
	key.subject, key.tail = strings.Join(parts[1:n-3], "/"), strings.Join(parts[n-3:], "/")
	key.limit = store.Limit{Count: amount, Period: time.Duration(multiple) * unit, Burst: amount}
	return key, key.subject != ""
}

// Match implements [Layout]. The prefix is key_prefix and a colon.
func (l limits) Match(storeKey string, asked bool) (store.Key, bool) {
	key, ok := l.parse(storeKey, asked)
	return store.Key{Subject: key.subject, Name: "limits/" + key.tail}, ok
}

// Together implements [Layout].
func (l limits) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	key, _ := l.parse(storeKey, true)
	if key.braces {
		return []string{key.counter, key.counter + limitsPrevious}
	}
	return []string{storeKey}
}

// Decode implements [Layout].
func (l limits) Decode(found *Found) (Reading, error) {
	key, _ := l.parse(found.StoreKey, true)
	value := &found.Values[0]
	var entry admin.Entry
	var err error
	longest := key.limit.Period
	switch {
	case key.braces:
		longest *= 2
		entry, err = l.sliding(found, &key)
	case value.Type == StringValue:
		entry, err = l.fixed(value, &key)
	case value.Type == ListValue:
		entry, err = l.moving(found, value, &key)
	default:
		err = notA(value.Type, StringValue, ListValue)
	}
	if err != nil {
		return Reading{}, err
	}
	// Nobody else writes the limit into the key like that.
	_, certain := l.parse(found.StoreKey, false)
	return lifetime{longest: longest, passes: value.Type == ListValue, never: "alisaifee/limits#15"}.reading(found, entry, certain)
}

// fixed decodes a counter. Requests that were denied count, too.
func (limits) fixed(value *Value, key *limitsKey) (admin.Entry, error) {
	count, err := countOf(value)
	return countEntry(fromFirst(key.limit), count, value.TTL), err
}

// moving decodes a list of the clients' times, the newest first. A request is allowed if the unit
// that it would push out of the window's amount is older than the period.
func (limits) moving(found *Found, value *Value, key *limitsKey) (admin.Entry, error) {
	limit := withAlgorithm(key.limit, store.SlidingLog)
	entry := admin.Entry{Limit: limit}
	now, period := float64(found.Now)/1e6, limit.Period.Seconds()
	last, oldest := 0.0, now
	for i := range value.Members {
		at, err := strconv.ParseFloat(value.Members[i].Name, 64)
		if err != nil || math.IsNaN(at) || at < 0 || at > math.MaxUint32 {
			return entry, errors.New("a list with a member that is not a time")
		}
		if int64(i) >= limit.Count {
			continue // the limiter does not look further
		}
		if at >= now-period {
			entry.Used++
			oldest = at
		}
		last = at
	}
	if value.Length > int64(len(value.Members)) && limit.Count > int64(len(value.Members)) {
		entry.UsedUnknown = true // too many to read
		return entry, nil
	}
	entry.Remaining = max(0, limit.Count-entry.Used)
	full := min(value.Length, int64(len(value.Members))) >= limit.Count
	if entry.Allowed = !full || last < now-period; !entry.Allowed {
		entry.RetryAfter = justAfter(last + period - now)
	}
	if entry.Used > 0 {
		entry.ResetAfter = secondsOf(oldest + period - now)
	}
	return entry, nil
}

// secondsOf returns a duration of seconds, not less than 0.
func secondsOf(seconds float64) time.Duration {
	return time.Duration(max(0, math.Round(seconds*1e6))) * time.Microsecond
}

// justAfter returns the first whole microsecond after so many seconds.
func justAfter(seconds float64) time.Duration {
	return time.Duration(max(0, math.Floor(seconds*1e6))+1) * time.Microsecond
}

// sliding decodes two counters. That of the window before is weighed by what is left of its TTL.
// The counter of this window has been that of the window before since a period before its end.
func (limits) sliding(found *Found, key *limitsKey) (admin.Entry, error) {
	limit := withAlgorithm(key.limit, store.SlidingCounter)
	entry := admin.Entry{Limit: limit, ResetTold: true}
	counts, err := countsOf(found.Values)
	if err != nil {
		return entry, err
	}
	current, previous := max(0, counts[0]), max(0, counts[1])
	currentEnds, previousEnds := max(0, found.Values[0].TTL), max(0, found.Values[1].TTL)
	period := limit.Period
	if found.Values[0].Type != NoValue && found.Values[0].TTL < period {
		previous, previousEnds = current, currentEnds
		current, currentEnds = 0, currentEnds+period
	}
	weighed := float64(previous)*float64(previousEnds.Milliseconds())/float64(period.Milliseconds()) + float64(current)
	entry.Used = toInt64(math.Floor(weighed))
	entry.Remaining = max(0, limit.Count-entry.Used)
	entry.Allowed = weighed+1 <= float64(limit.Count)
	if previous > 0 { // when it weighs a unit less
		entry.ResetAfter = secondsOf(math.Mod(previousEnds.Seconds(), period.Seconds()/float64(previous)))
	}
	if ends := currentEnds % period; current > 0 && (previous == 0 || ends < entry.ResetAfter) {
		entry.ResetAfter = ends
	}
	if !entry.Allowed {
		entry.RetryAfter = slidingRetry(limit, current, previous, currentEnds, previousEnds)
	}
	return entry, nil
}

// slidingRetry returns when a unit fits, if nobody takes one. The time of both windows is what is
// left of them, in whole milliseconds.
func slidingRetry(limit store.Limit, current, previous int64, currentEnds, previousEnds time.Duration) time.Duration {
	room := limit.Count - 1
	if current > room { // it has to become the window before
		return currentEnds - shareOf(limit.Period, room, current)
	}
	if previous == 0 {
		return 0
	}
	return previousEnds - shareOf(limit.Period, room-current, previous)
}

// shareOf returns the part of a period that units are of all, less than all, in whole milliseconds.
func shareOf(period time.Duration, units, all int64) time.Duration {
	high, low := bits.Mul64(uint64(units), uint64(period.Milliseconds()))
	share, _ := bits.Div64(high, low, uint64(all))
	return time.Duration(share) * time.Millisecond
}
