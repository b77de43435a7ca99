package layouts

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// This file has limiters whose keys name the window that is counted in: Envoy's, Kong's and Rack::Attack's.

// envoyUnits are the units of its configuration, the shortest first. A month has 30 days and a year 365.
var envoyUnits = []struct {
	name   string
	period time.Duration
}{{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", day}, {"week", 7 * day},
	{"month", 30 * day}, {"year", 365 * day}}

// envoyJitter is how much longer than a unit the service keeps a key at most from the last request on, unless
// EXPIRATION_JITTER_MAX_SECONDS says otherwise.
const envoyJitter = 300 * time.Second

// matchEnvoy: the key is "<domain>_", then "<key>_<value>_" of each entry of a descriptor, then when the window
// begins. None of them is escaped, so that they are left in one piece.
func matchEnvoy(storeKey string, _ bool) (store.Key, bool) {
	descriptor, begin, _ := cutLast(storeKey, "_")
	_, ok := windowNumber(begin)
	return store.Key{Subject: descriptor, Name: "envoy"}, ok && len(begin) == len("1795294320") &&
		strings.Count(descriptor, "_") >= 2
}

// decodeEnvoy reads a counter of a window that begins at a whole number of units since 1970. Denied requests count,
// too. Only the configuration of the service has the unit. If an operator says the limit, it is his. Otherwise the
// window begins at a whole number of them. Each request sets the expiry anew, to the unit and the jitter from then
// on, so the key is let go of at least one unit and at most two and the jitter after the begin.
func decodeEnvoy(_ *row, found *Found) (Reading, error) {
	const clocks = 2 * time.Second
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	descriptor, text, _ := cutLast(found.StoreKey, "_")
	begin, _ := strconv.ParseInt(text, 10, 64)
	age := found.Now.Time().Truncate(time.Second).Sub(time.Unix(begin, 0))
	kept := found.Now.Time().Add(value.TTL).Truncate(time.Second).Sub(time.Unix(begin, 0))
	var names []string
	var longest time.Duration
	for _, unit := range envoyUnits {
		p := unit.period
		switch {
		case begin%int64(p/time.Second) != 0 || age < -clocks:
			continue
		case p == found.Limit.Period:
			names = nil
		case value.TTL < 0 && age >= 2*p+envoyJitter: // only the age counts
			continue
		case value.TTL >= 0 && (kept < p-clocks || kept > 2*p+envoyJitter+clocks):
			continue
		}
		names, longest = append(names, unit.name), p
		if p == found.Limit.Period {
			break
		}
	}
	if len(names) == 0 {
		return Reading{}, errors.New("a counter whose window fits no unit")
	}
	key := store.Key{Subject: found.Key.Subject, Name: "envoy/" + strings.Join(names, "-or-")}
	limit := store.Limit{Algorithm: store.FixedWindow}
	if len(names) == 1 {
		limit.Period = longest
	}
	limit = counted(limit, found.Limit)
	entry := windowEntry(key, limit, count, begin, time.Unix(begin, 0).Add(longest).Sub(found.Now.Time()))
	if len(names) > 1 && entry.Key == (store.Key{}) {
		entry = countEntry(limit, count, -1)
	}
	if entry.Key == (store.Key{}) {
		entry.Key = key
	}
	certain := isEnvoyDescriptor(descriptor) && value.TTL > 0 && value.TTL <= longest+envoyJitter
	return lifetime{longest: longest + envoyJitter, passes: true}.reading(found, entry, certain)
}

// isEnvoyDescriptor reports whether what a key says holds an entry that Envoy itself makes, and that has a form of its
// own.
func isEnvoyDescriptor(descriptor string) bool {
	for _, key := range []string{"_generic_key_", "_header_match_", "_destination_cluster_", "_source_cluster_"} {
		if strings.Contains(descriptor, key) {
			return true
		}
	}
	_, address, _ := strings.Cut(descriptor, "_remote_address_")
	address, _, _ = strings.Cut(address, "_")
	_, err := netip.ParsePrefix(address)
	return isAddress(address) || err == nil
}

// kongKey is "ratelimit:<route>:<service>:<client>:<begin in ms>:<period>" of the plugin rate-limiting, and
// "response-ratelimit:<route>:<service>:<client>:<begin in ms>:<limit>:<period>" of response-ratelimiting.
var (
	kongKey = keysLike(`^(?P<plugin>ratelimit|response-ratelimit):(?P<route>[^:]*):(?P<service>[^:]*):(?P<client>.+):` +
		`(?P<begin>[1-4]\d{12}):(?:(?P<limit>.+):)?(?P<period>second|minute|hour|day|month|year)$`)
	kongIDs = keysLike(strings.ReplaceAll(`^[^:]*:UUID:UUID:`, "UUID", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"))
)

// kongWindow is a window as a store key names it.
type kongWindow struct {
	key        store.Key
	period     string
	begin, end time.Time
}

func parseKong(storeKey string) (w kongWindow, ok bool) {
	g := groupsOf(kongKey, storeKey)
	if g == nil || (g["plugin"] == "ratelimit") != (g["limit"] == "") {
		return w, false
	}
	w.key, w.period = store.Key{Subject: g["client"], Name: "kong"}, g["period"]
	for _, name := range []string{g["limit"], g["period"], g["route"], g["service"]} {
		if name != "" && name != kongNobody {
			w.key.Name += "/" + name
		}
	}
	ms, _ := strconv.ParseInt(g["begin"], 10, 64)
	w.begin = time.UnixMilli(ms).UTC()
	w.end, ok = calendarEnd(w.begin, w.period)
	return w, ok
}

// calendarEnd returns the end of the calendar's period that begins at an instant; ok is false if none does.
func calendarEnd(begin time.Time, period string) (end time.Time, ok bool) {
	year, month, date := begin.Date()
	parts := []int{year, int(month), date, begin.Hour(), begin.Minute(), begin.Second()}
	at := slices.Index([]string{"year", "month", "day", "hour", "minute", "second"}, period)
	copy(parts[at+1:], []int{0, 1, 1, 0, 0, 0}[at+1:])
	instant := func() time.Time {
		return time.Date(parts[0], time.Month(parts[1]), parts[2], parts[3], parts[4], parts[5], 0, time.UTC)
	}
	ok = instant().Equal(begin)
	parts[at]++
	return instant(), ok
}

// matchKong: what was not asked for has routes and services in the form of Kong's own.
func matchKong(storeKey string, asked bool) (store.Key, bool) {
	w, ok := parseKong(storeKey)
	return w.key, ok && (asked || kongIDs().MatchString(storeKey))
}

// decodeKong: denied requests count, too. A limit that an operator gives counts for windows of its period. A month
// has 28 to 31 days and a year 365 or 366; they are kept for 30 and 365 days.
func decodeKong(_ *row, found *Found) (Reading, error) {
	w, _ := parseKong(found.StoreKey)
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit, said := store.Limit{Algorithm: store.FixedWindow, Period: w.end.Sub(w.begin)}, found.Limit
	isMonth := w.period == "month" && said.Period >= 28*day && said.Period <= 31*day
	if isMonth || w.period == "year" && said.Period >= 365*day && said.Period <= 366*day {
		said.Period = limit.Period
	}
	left := w.end.Sub(found.Now.Time())
	entry := windowEntry(found.Key, counted(limit, said), count, w.begin.Unix(), left)
	if left > 0 && value.TTL >= 0 {
		entry = countEntry(entry.Limit, count, min(left, value.TTL))
	}
	kept := lifetime{longest: limit.Period, passes: true, never: "Kong/kong#5763", absurd: "Kong/kong#14995"}
	return kept.reading(found, entry, kongIDs().MatchString(found.StoreKey))
}

// rackAttackKey is of a window's counter, or of a client that fail2ban or allow2ban has banned. The name of a
// throttle and the client are both any text, with colons between and perhaps in them, so they are not separated.
var rackAttackKey = keysLike(`^(?:.*?:)?rack::attack:(?:(?P<filter>fail2ban|allow2ban):ban:(?P<banned>.+)|` +
	`(?P<index>[1-9]\d{0,17}):(?:(?P<counts>fail2ban|allow2ban):count:)?(?P<subject>.+))$`)

func matchRackAttack(storeKey string, _ bool) (store.Key, bool) {
	if !strings.Contains(storeKey, "rack::attack:") { // which is faster than the pattern
		return store.Key{}, false
	}
	g := groupsOf(rackAttackKey, storeKey)
	key := store.Key{Subject: g["subject"] + g["banned"], Name: "rack-attack"}
	switch {
	case g["filter"] != "":
		key.Name += "/" + g["filter"]
	case g["counts"] != "":
		key.Name += "/" + g["counts"] + "-count"
	}
	return key, g != nil
}

// decodeRackAttack: a counter is kept until about a second after its window's end.
func decodeRackAttack(_ *row, found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	index, counts := windowNumber(groupsOf(rackAttackKey, found.StoreKey)["index"])
	usual := strings.HasPrefix(found.StoreKey, "rack::attack:") && count >= 0
	if !counts {
		entry := admin.Entry{UsedUnknown: true}
		if value.TTL >= 0 {
			blockEntry(&entry, value.TTL)
		}
		return lifetime{}.reading(found, entry, usual && count == 1 && value.TTL != 0)
	}
	w, limit := windowOf(found.Limit, index, time.Second, 0, found.Now)
	if w.period == 0 {
		return lifetime{passes: true}.reading(found, admin.Entry{Limit: limit, UsedUnknown: true}, false)
	}
	left := w.until(found.Now)
	kept := lifetime{longest: w.period + time.Second, passes: true}
	return kept.reading(found, windowEntry(found.Key, limit, count, index, left), usual &&
		agrees(left, value.TTL, 2*time.Second))
}
