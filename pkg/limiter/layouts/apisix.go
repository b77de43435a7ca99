package layouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// apisix is Apache APISIX with its plugins limit-count, limit-req and limit-conn. This file has
// limit-count, whose windows are fixed or slide; see apisixRequests and apisixConnections for the
// others.
type apisix struct{}

// The store keys begin so, and those of windows that slide end in "<window's number>.counter".
// Until 2026 the key of a fixed window had no "v1", and its number was what remains.
const (
	apisixCount, apisixFixed      = "plugin-limit-count", ":v1:"
	apisixCounter                 = ".counter"
	apisixRequest, apisixConnects = "limit_req:", "limit_conn:"
)

// apisixKind is a way in which APISIX limits.
type apisixKind int

const (
	apisixNone apisixKind = iota
	apisixUsed
	apisixLeft
	apisixSliding
	apisixRequests
	apisixConnections
)

// Info implements [Layout].
func (apisix) Info() Info {
	return Info{
		Name: "apisix", Called: "a limit of APISIX",
		Writer:  "Apache APISIX: limit-count, limit-req, limit-conn",
		Example: "plugin-limit-count:v1:/apisix/routes/1:1626:203.0.113.9", Type: "string, hash or sorted set",
		Prefixes: []string{apisixCount, apisixRequest, apisixConnects},
		Needs:    "the limit; of limit-req with its burst and 1 as the burst, of limit-conn its conn and burst as the count",
		Beyond:   "With sync_interval APISIX counts by itself, and adds its count to Redis at the next sync.",
		Source:   "github.com/apache/apisix f519a0f0",
	}
}

// parseApisix returns what a store key is of, and what stands for the limited in it.
func parseApisix(storeKey string) (kind apisixKind, key string, index int64) {
	if key, ok := strings.CutPrefix(storeKey, apisixRequest); ok && key != "" {
		return apisixRequests, key, 0
	}
	if key, ok := strings.CutPrefix(storeKey, apisixConnects); ok && key != "" {
		return apisixConnections, key, 0
	}
	rest, ok := strings.CutPrefix(storeKey, apisixCount)
	if !ok {
		return apisixNone, "", 0
	}
	if key, ok := strings.CutPrefix(rest, apisixFixed); ok {
		return apisixUsed, key, 0
	}
	if key, ok := strings.CutPrefix(rest, ":"); ok {
		key, ok = strings.CutSuffix(key, apisixCounter)
		i := strings.LastIndexByte(key, '.')
		if !ok || i < 1 || !isDigits(key[i+1:]) {
			return apisixNone, "", 0
		}
		index, err := strconv.ParseInt(key[i+1:], 10, 64)
		if err != nil || strconv.FormatInt(index, 10) != key[i+1:] {
			return apisixNone, "", 0
		}
		return apisixSliding, key[:i], index
	}
	return apisixLeft, rest, 0
}

// Match implements [Layout]. The key of limit-count is "<group>:<value>", or "<route or other
// object>:<version of its configuration>:<value>".
func (apisix) Match(storeKey string, _ bool) (store.Key, bool) {
	kind, key, _ := parseApisix(storeKey)
	switch kind {
	case apisixNone:
		return store.Key{}, false
	case apisixRequests:
		_, _, key = apisixRequestKeys(storeKey)
		return store.Key{Subject: key, Name: "apisix/limit-req"}, key != ""
	case apisixConnections:
		return store.Key{Subject: key, Name: "apisix/limit-conn"}, true
	default: // handled below
	}
	object, value, found := strings.Cut(key, ":")
	if version, rest, ok := strings.Cut(value, ":"); ok && strings.HasPrefix(object, "/") && isDigits(version) {
		value = rest
	}
	object = strings.TrimPrefix(strings.TrimPrefix(object, "/apisix"), "/")
	return store.Key{Subject: value, Name: "apisix/limit-count/" + object}, found && value != ""
}

// Together implements [Layout].
func (apisix) Together(storeKey string, limit store.Limit, now store.Instant) []string {
	kind, key, index := parseApisix(storeKey)
	switch kind {
	case apisixRequests:
		first, second, _ := apisixRequestKeys(storeKey)
		if second == "" {
			return []string{first}
		}
		return []string{first, second}
	case apisixSliding:
		w, _ := windowOf(limit, store.SlidingCounter, index, time.Second, 0, now)
		if w.period == 0 || w.age(now) != 0 && w.age(now) != 1 {
			return []string{storeKey}
		}
		current := index + w.age(now)
		return []string{apisixSlidingKey(key, current), apisixSlidingKey(key, current-1)}
	default: // handled below
	}
	return []string{storeKey}
}

func apisixSlidingKey(key string, index int64) string {
	return apisixCount + ":" + key + "." + strconv.FormatInt(index, 10) + apisixCounter
}

// Decode implements [Layout].
func (apisix) Decode(found *Found) (Reading, error) {
	kind, _, index := parseApisix(found.StoreKey)
	switch kind {
	case apisixRequests:
		return decodeApisixRequests(found)
	case apisixConnections:
		return decodeApisixConnections(found)
	case apisixSliding:
		return decodeApisixSliding(found, index)
	default: // handled below
	}
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit := fromFirst(found.Limit)
	entry := countEntry(limit, count, value.TTL)
	switch {
	case value.TTL < 0: // APISIX begins anew
		entry = countEntry(limit, 0, 0)
	case kind == apisixLeft && limit.Count > 0:
		entry = countEntry(limit, limit.Count-max(count, -store.MaxUsage), value.TTL)
	case kind == apisixLeft:
		entry.Used, entry.UsedUnknown, entry.ResetAfter = 0, true, value.TTL
	}
	return lifetime{longest: limit.Period, passes: value.TTL < 0}.reading(found, entry, value.TTL > 0 || kind == apisixUsed)
}

// decodeApisixSliding reads two windows. Denied requests do not count. The one before counts for
// the limit at most.
func decodeApisixSliding(found *Found, index int64) (Reading, error) {
	w, limit := windowOf(found.Limit, store.SlidingCounter, index, time.Second, 0, found.Now)
	counts, err := countsOf(found.Values)
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: limit, UsedUnknown: true}
	switch {
	case w.period == 0:
	case len(found.Values) == 1: // of a window long past
		entry = pastEntry(found.Key, limit, index)
	default:
		current := window{index + w.age(found.Now), w.period}
		entry = apisixSlidingEntry(limit, counts[0], counts[1], current.until(found.Now))
	}
	return lifetime{longest: 2 * w.period, passes: true}.reading(found, entry, w.period > 0)
}

// apisixSlidingEntry is the entry of two windows of which the current one still lasts for rest.
func apisixSlidingEntry(limit store.Limit, current, previous int64, rest time.Duration) admin.Entry {
	if limit.Count > 0 {
		previous = min(previous, limit.Count)
	}
	w := twoWindows{previous: float64(previous), current: float64(current), size: limit.Period, rest: rest}
	entry := w.entry(limit)
	if !entry.CapacityKnown() {
		return entry
	}
	// A request is allowed while less than the limit is in use, be it by a fraction.
	entry.Allowed = w.used() < float64(limit.Count)
	if entry.RetryAfter = 0; !entry.Allowed {
		w.current = min(w.current, float64(limit.Count)) // as it counts in the next window
		entry.RetryAfter = w.until(float64(limit.Count))
		if current >= limit.Count {
			entry.RetryAfter = rest
		}
		if later := w.after(entry.RetryAfter); later.used() >= float64(limit.Count) {
			entry.RetryAfter += time.Microsecond
		}
	}
	return entry
}

// SetRemaining implements [Setter].
func (apisix) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	kind, _, index := parseApisix(found.StoreKey)
	limit := fromFirst(found.Limit)
	switch kind {
	case apisixRequests:
		return setApisixRequests(found, remaining)
	case apisixConnections:
		return nil, store.Invalidf("the connections of key %q cannot be set; they end by themselves", found.StoreKey)
	case apisixSliding:
		_, limit = windowOf(found.Limit, store.SlidingCounter, index, time.Second, 0, found.Now)
	default: // handled below
	}
	count, err := toCount(limit, remaining)
	switch {
	case err != nil:
		return nil, err
	case kind == apisixLeft: // the counter shows what remains
		return setCounter(&found.Values[0], limit, limit.Count-remaining, limit.Period)
	case kind == apisixUsed:
		return setCounter(&found.Values[0], limit, remaining, limit.Period)
	case len(found.Values) != 2:
		return nil, windowOver(found)
	}
	return setBefore([]Write{writeCount(&found.Values[0], count, 2*limit.Period)}, &found.Values[1]), nil
}
