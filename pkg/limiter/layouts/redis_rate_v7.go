package layouts

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// redisRateWindows is github.com/go-redis/redis_rate up to v7: windows with a number, in a
// counter each. Its Allow counts in windows of seconds, "rate:<name>-<number>", and its
// AllowRate in windows of which the key has the length in ns, "rate:<name>-<ns>-<number>".
type redisRateWindows struct{ single }

// redisRateKept is how much longer than a period from the last request on a counter is kept.
const redisRateKept = 30 * time.Second

// Info implements [Layout].
func (redisRateWindows) Info() Info {
	return Info{
		Name: "redis_rate-v7", Called: "a redis_rate window", Writer: "go-redis/redis_rate up to v7",
		Example: "rate:project:123-29921572", Type: "string", Prefixes: []string{"rate:"}, Needs: "the count",
		Source: "github.com/go-redis/redis_rate v7.0.0",
	}
}

// numberedName is the parsed key of a window.
type numberedName struct {
	name   string
	period time.Duration // 0 if the key does not tell
	number int64
}

func parseNumberedName(storeKey string, asked bool) (n numberedName, ok bool) {
	rest, ok := cutPrefix(storeKey, "rate:", asked)
	if !ok {
		return n, false
	}
	if n.name, n.number, ok = cutNumber(rest); !ok {
		return n, false
	}
	// A rate has windows of whole seconds.
	if name, period, has := cutNumber(n.name); has && period%int64(time.Second) == 0 && period <= int64(store.MaxPeriod) {
		n.name, n.period = name, time.Duration(period)
	}
	return n, n.name != ""
}

// cutNumber cuts a text at its last hyphen, behind which there is a number.
func cutNumber(text string) (before string, number int64, ok bool) {
	hyphen := strings.LastIndexByte(text, '-')
	if hyphen < 0 {
		return "", 0, false
	}
	digits := text[hyphen+1:]
	number, err := strconv.ParseInt(digits, 10, 64)
	return text[:hyphen], number, err == nil && number > 0 && digits[0] >= '1' && digits[0] <= '9'
}

// Match implements [Layout].
func (l redisRateWindows) Match(storeKey string, asked bool) (store.Key, bool) {
	n, ok := parseNumberedName(storeKey, asked)
	name := l.Info().Name
	if n.period > 0 {
		name += "/" + store.FormatPeriod(n.period)
	}
	return store.Key{Subject: n.name, Name: name}, ok
}

// Decode implements [Layout].
func (l redisRateWindows) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	if count < 0 {
		return Reading{}, errors.New("a negative count")
	}
	w, limit := l.windowOf(found)
	if w.period == 0 {
		return Reading{Entries: []admin.Entry{{Limit: limit, UsedUnknown: true}}}, nil
	}
	entry := countEntry(limit, count, w.until(found.Now))
	if w.age(found.Now) > 0 { // it counts for nothing any more
		entry = pastEntry(found.Key, limit, w.index)
	}
	// Each request has the key kept for 30 seconds more than the period, which nobody else does.
	least := w.until(found.Now) + redisRateKept
	certain := value.TTL >= least-clocksDiffer && value.TTL <= w.period+redisRateKept+clocksDiffer
	return lifetime{longest: w.period + redisRateKept, needed: entry.ResetAfter, passes: true}.reading(found, entry, certain)
}

func (l redisRateWindows) windowOf(found *Found) (w window, limit store.Limit) {
	n, _ := parseNumberedName(found.StoreKey, true)
	if n.period == 0 {
		return windowOf(found.Limit, store.FixedWindow, n.number, time.Second, redisRateKept, found.Now)
	}
	limit = store.Limit{Algorithm: store.FixedWindow, Period: n.period}
	switch {
	case n.period > time.Second: // only a rate below 1/s has such a window, and one request in it
		limit.Count, limit.Burst = 1, 1
	case found.Limit.Period == n.period:
		limit = withAlgorithm(found.Limit, store.FixedWindow)
	}
	return window{n.number, n.period}, limit
}

// SetRemaining implements [Setter].
func (l redisRateWindows) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	w, limit := l.windowOf(found)
	if w.period == 0 || w.age(found.Now) > 0 {
		return nil, windowOver(found)
	}
	return setCounter(&found.Values[0], limit, remaining, w.period+redisRateKept)
}
