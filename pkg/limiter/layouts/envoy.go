package layouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// envoy is envoyproxy/ratelimit, the service that Envoy asks for its global limits: a counter of
// a window that begins at a whole number of units since 1970. The unit is in the configuration
// of the service only.
type envoy struct{ single }

// envoyUnit is a unit of the service's configuration.
type envoyUnit struct {
	name    string
	seconds int64
}

// envoyUnits are all units, the shortest first. A month has 30 days and a year 365.
var envoyUnits = []envoyUnit{
	{"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", 86_400}, {"week", 7 * 86_400}, {"month", 30 * 86_400}, {"year", 365 * 86_400},
}

// envoyJitter is by how many seconds at most the service keeps a key longer than a unit from the
// last request on, unless EXPIRATION_JITTER_MAX_SECONDS says otherwise.
const envoyJitter = 300

// Info implements [Layout]. The facts are from github.com/envoyproxy/ratelimit f2fb1577.
func (envoy) Info() Info {
	return Info{
		Name: "envoy", Writer: "envoyproxy/ratelimit", Example: "edge_remote_address_203.0.113.9_1795294320",
		Needs:  "the limit",
		Beyond: "With LOCAL_CACHE_SIZE_IN_BYTES each replica remembers a limit that is reached, and denies until the window ends.",
	}
}

// Match implements [Layout]. The key is "<domain>_", then "<key>_<value>_" of each entry of a
// descriptor, then when the window begins. None of them is escaped, so that they are left in one
// piece.
func (envoy) Match(storeKey string, _ bool) (store.Key, bool) {
	descriptor, _, ok := parseEnvoy(storeKey)
	return store.Key{Subject: descriptor, Name: "envoy"}, ok
}

func parseEnvoy(storeKey string) (descriptor string, begin int64, ok bool) {
	i := strings.LastIndexByte(storeKey, '_')
	if i < 0 {
		return "", 0, false
	}
	descriptor, text := storeKey[:i], storeKey[i+1:]
	begin, err := strconv.ParseInt(text, 10, 64)
	ok = err == nil && isDigits(text) && len(text) == len("1795294320") && text[0] != '0' && strings.Count(descriptor, "_") >= 2
	return descriptor, begin, ok
}

// Decode implements [Layout]. Denied requests count, too.
func (envoy) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	descriptor, begin, _ := parseEnvoy(found.StoreKey)
	units := envoyUnitsOf(begin, found, value)
	if len(units) == 0 {
		return Reading{}, errNoUnit
	}
	entry := countEntry(counted(store.Limit{Algorithm: store.FixedWindow}, found.Limit), count, -1)
	entry.Key = found.Key
	longest := units[len(units)-1]
	if len(units) == 1 {
		entry = envoyEntry(found, count, longest, begin)
	}
	var names []string
	for _, unit := range units {
		names = append(names, unit.name)
	}
	entry.Key.Name = "envoy/" + strings.Join(names, "-or-")
	if longest.isOver(begin, found.Now) {
		entry.Key.Name += "@" + strconv.FormatInt(begin, 10)
		entry.Used, entry.ResetAfter, entry.RetryAfter, entry.ResetTold, entry.RetryTold = 0, 0, 0, true, true
		entry.Allowed, entry.Remaining = entry.CapacityKnown(), entry.Limit.Count
	}
	longestKept := time.Duration(longest.seconds+envoyJitter) * time.Second
	certain := isEnvoyDescriptor(descriptor) && value.TTL > 0 && value.TTL <= longestKept
	return lifetime{longest: longestKept, passes: true}.reading(found, entry, certain)
}

// isOver reports whether a window of the unit is over.
func (u envoyUnit) isOver(begin int64, now store.Instant) bool {
	return int64(now) >= (begin+u.seconds)*1_000_000
}

// envoyUnitsOf returns the units that a window can have, the shortest first. If an operator says
// the limit, it is his. Otherwise it begins at a whole number of them. Each request sets the
// expiry anew, to the unit and the jitter from then on. Requests come while the window lasts, so
// the key is let go of at least one unit and at most two and the jitter after the begin.
func envoyUnitsOf(begin int64, found *Found, value *Value) (units []envoyUnit) {
	const clocks = 2
	kept := (int64(found.Now)+int64(value.TTL/time.Microsecond))/1_000_000 - begin
	age := int64(found.Now)/1_000_000 - begin
	for _, unit := range envoyUnits {
		switch {
		case begin%unit.seconds != 0 || age < -clocks:
		case time.Duration(unit.seconds)*time.Second == found.Limit.Period:
			return []envoyUnit{unit}
		case value.TTL < 0: // then only the age counts
			if age < 2*unit.seconds+envoyJitter {
				units = append(units, unit)
			}
		case kept >= unit.seconds-clocks && kept <= 2*unit.seconds+envoyJitter+clocks:
			units = append(units, unit)
		}
	}
	return units
}

// envoyEntry is the entry of a window of a unit.
func envoyEntry(found *Found, count int64, unit envoyUnit, begin int64) admin.Entry {
	period := time.Duration(unit.seconds) * time.Second
	limit := counted(store.Limit{Algorithm: store.FixedWindow, Period: period}, found.Limit)
	entry := countEntry(limit, count, window{begin / unit.seconds, period}.until(found.Now))
	entry.Key = found.Key
	return entry
}

// isEnvoyDescriptor reports whether what a key says holds an entry that Envoy itself makes, and
// that has a form of its own.
func isEnvoyDescriptor(descriptor string) bool {
	for _, key := range []string{"_generic_key_", "_header_match_", "_destination_cluster_", "_source_cluster_"} {
		if strings.Contains(descriptor, key) {
			return true
		}
	}
	_, address, _ := strings.Cut(descriptor, "_remote_address_")
	address, _, _ = strings.Cut(address, "_")
	return isAddress(address) || isRange(address)
}
