package layouts

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// kong is the API gateway with its plugins rate-limiting and response-ratelimiting, which count
// in the seconds, minutes, hours, days, months and years of the calendar in UTC.
type kong struct{ single }

// The store keys are "ratelimit:<route>:<service>:<client>:<begin in ms>:<period>" and
// "response-ratelimit:<route>:<service>:<client>:<begin in ms>:<limit>:<period>".
const kongRate, kongResponse = "ratelimit:", "response-ratelimit:"

// kongNobody stands for a route or service in a key if the plugin is not configured for one.
const kongNobody = "00000000-0000-0000-0000-000000000000"

// kongWindow is a window as a store key names it.
type kongWindow struct {
	client, route, service string
	limit                  string // the name of a limit of response-ratelimiting
	period                 string
	begin, end             time.Time
}

// Info implements [Layout]. The facts are from github.com/Kong/kong 22246ef2.
func (kong) Info() Info {
	return Info{
		Name: "kong", Writer: "Kong: rate-limiting, response-ratelimiting",
		Example:  "ratelimit:" + kongNobody + ":" + kongNobody + ":203.0.113.9:1795294320000:minute",
		Prefixes: []string{kongRate, kongResponse}, Needs: "the count",
		Beyond: "With a sync_rate above 0 each worker of Kong has a count of its own, and adds it to Redis at the next sync.",
	}
}

// Match implements [Layout].
func (kong) Match(storeKey string, asked bool) (store.Key, bool) {
	w, ok := parseKong(storeKey, asked)
	if !ok {
		return store.Key{}, false
	}
	return store.Key{Subject: w.client, Name: w.name()}, true
}

// Decode implements [Layout]. Denied requests count, too. A key is Certain if its route and service are UUIDs, as Kong
// writes them.
func (kong) Decode(found *Found) (Reading, error) {
	w, _ := parseKong(found.StoreKey, true)
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	now := found.Now.Time()
	left := w.end.Sub(now)
	if value.TTL >= 0 { // months and years are kept for 30 and 365 days
		left = min(left, value.TTL)
	}
	entry := countEntry(w.limitOf(found.Limit), count, left)
	if !now.Before(w.end) {
		// The window is over: Kong looks at the next one.
		entry = pastEntry(found.Key, entry.Limit, w.begin.Unix())
		entry.RetryTold = true
	}
	_, certain := parseKong(found.StoreKey, false)
	kept := lifetime{longest: w.end.Sub(w.begin), passes: true, never: "Kong/kong#5763", absurd: "Kong/kong#14995"}
	return kept.reading(found, entry, certain)
}

// parseKong reads a store key from both ends, since clients can be IPv6 addresses and paths. If
// the key was not asked for, the routes and services have to be in the form of Kong's own.
func parseKong(storeKey string, asked bool) (w kongWindow, ok bool) {
	rest, isRate := strings.CutPrefix(storeKey, kongRate)
	if !isRate {
		if rest, ok = strings.CutPrefix(storeKey, kongResponse); !ok {
			return w, false
		}
	}
	var begin string
	w.route, rest, _ = strings.Cut(rest, ":")
	w.service, rest, _ = strings.Cut(rest, ":")
	rest, w.period, _ = cutLastColon(rest)
	if isRate {
		w.client, begin, _ = cutLastColon(rest)
	} else {
		w.client, begin, w.limit = cutKongResponse(rest)
	}
	ms, err := strconv.ParseInt(begin, 10, 64)
	if err != nil || w.client == "" || ms <= 0 || ms > math.MaxUint32*1000 || !isDigits(begin) {
		return w, false
	}
	w.begin = time.UnixMilli(ms).UTC()
	w.end, ok = kongEnd(w.begin, w.period)
	return w, ok && (asked || isUUID(w.route) && isUUID(w.service))
}

// cutKongResponse cuts "<client>:<begin in ms>:<limit>" at the last time in it, since the name of
// a limit can hold a colon, too.
func cutKongResponse(text string) (client, begin, limit string) {
	for end := len(text); ; {
		i := strings.LastIndexByte(text[:end], ':')
		if i < 0 {
			return "", "", ""
		}
		if part := text[i+1 : end]; end < len(text)-1 && len(part) >= len("1000000000000") && isDigits(part) {
			return text[:i], part, text[end+1:]
		}
		end = i
	}
}

// kongEnd returns the end of the calendar's period that begins at an instant; ok is false if
// none does.
func kongEnd(begin time.Time, period string) (end time.Time, ok bool) {
	year, month, day := begin.Date()
	atStart := begin
	switch period {
	case "second":
		atStart, end = begin.Truncate(time.Second), begin.Add(time.Second)
	case "minute":
		atStart, end = begin.Truncate(time.Minute), begin.Add(time.Minute)
	case "hour":
		atStart, end = begin.Truncate(time.Hour), begin.Add(time.Hour)
	case "day":
		atStart, end = time.Date(year, month, day, 0, 0, 0, 0, time.UTC), begin.AddDate(0, 0, 1)
	case "month":
		atStart, end = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), begin.AddDate(0, 1, 0)
	case "year":
		atStart, end = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), begin.AddDate(1, 0, 0)
	default:
		return end, false
	}
	return end, atStart.Equal(begin)
}

// name returns the name of the limit: of the period, and of the route and the service if the
// plugin is configured for them.
func (w *kongWindow) name() string {
	name := "kong/" + w.period
	if w.limit != "" {
		name = "kong/" + w.limit + "/" + w.period
	}
	for _, id := range []string{w.route, w.service} {
		if id != kongNobody {
			name += "/" + id
		}
	}
	return name
}

// limitOf returns what is known of the limit. A limit that an operator gives counts for windows of its
// period, or of all if it has none. A month has 28 to 31 days and a year 365 or 366.
func (w *kongWindow) limitOf(said store.Limit) store.Limit {
	limit := store.Limit{Algorithm: store.FixedWindow, Period: w.end.Sub(w.begin)}
	isMonth := w.period == "month" && said.Period >= 28*day && said.Period <= 31*day
	isYear := w.period == "year" && said.Period >= 365*day && said.Period <= 366*day
	if isMonth || isYear {
		said.Period = limit.Period
	}
	return counted(limit, said)
}
