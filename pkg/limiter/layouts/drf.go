package layouts

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// drf is Django REST framework with its throttles, in a cache of Django on Redis: a pickled list
// of the times of requests in seconds, the latest first. The clock is the application's. A denied
// request is not added.
type drf struct{ single }

// drfPeriods are all periods that the framework's rates have.
var drfPeriods = []time.Duration{time.Second, time.Minute, time.Hour, day}

// Info implements [Layout]. The facts are from github.com/encode/django-rest-framework 751a19fe.
func (drf) Info() Info {
	return Info{
		Name: "drf", Writer: "Django REST framework: throttles", Example: ":1:throttle_user_42",
		Prefixes: []string{":1:throttle_"}, Needs: "the count",
		Beyond: "A request that is under way writes back the list that it has read.",
	}
}

// Match implements [Layout]. The key is "<prefix>:<version>:throttle_<scope>_<client>", and
// neither of the last two is escaped. A client is a number or an address, so that the last line
// divides them.
func (drf) Match(storeKey string, asked bool) (store.Key, bool) {
	rest, ok := cutDjango(storeKey, asked)
	if !ok {
		return store.Key{}, false
	}
	rest, ok = strings.CutPrefix(rest, "throttle_")
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 || i == len(rest)-1 {
		return store.Key{}, false
	}
	return store.Key{Subject: rest[i+1:], Name: "drf/" + rest[:i]}, true
}

// cutDjango cuts what Django puts before the keys of a cache: a prefix, which is usually empty,
// and a version, usually 1.
func cutDjango(storeKey string, asked bool) (key string, ok bool) {
	prefix, rest, _ := strings.Cut(storeKey, ":")
	version, key, ok := strings.Cut(rest, ":")
	return key, ok && isDigits(version) && (asked || prefix == "" && version == "1")
}

// Decode implements [Layout].
func (drf) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	latest, err := drfTimes(value)
	if err != nil {
		return Reading{}, err
	}
	entry := admin.Entry{Limit: drfLimit(found, latest), UsedUnknown: true}
	length := int64(len(latest))
	if int64(len(value.Text)) < value.Length {
		length++ // it was not read to its end
	}
	if entry.Limit.Period > 0 {
		logEntry(&entry, drfNanoseconds(latest), length, int64(found.Now)*1000)
	}
	return lifetime{longest: entry.Limit.Period, passes: true}.reading(found, entry, value.TTL >= 0 && len(latest) > 0)
}

// drfTimes returns the times of a value in seconds, the latest first.
func drfTimes(value *Value) ([]float64, error) {
	if value.Type != StringValue {
		return nil, notA(value.Type, StringValue)
	}
	times, whole, err := parsePickledTimes(value.Text)
	if err != nil {
		return nil, err
	}
	if whole != (value.Length == int64(len(value.Text))) {
		return nil, errNotPickle
	}
	for _, at := range times {
		if !(at > 0 && at <= math.MaxUint32) { // NaN fails, too
			return nil, errNotPickle
		}
	}
	return times, nil
}

// drfNanoseconds returns times in ns, in ascending order, whatever processes that raced each
// other have made of it.
func drfNanoseconds(latest []float64) []int64 {
	times := make([]int64, len(latest))
	for i, at := range latest {
		times[i] = int64(at * float64(time.Second))
	}
	slices.Sort(times)
	return times
}

// drfLimit returns what is known of the limit. Each request that is let through is added and sets
// the expiry to the period, so that they tell which of the few periods it is.
func drfLimit(found *Found, latest []float64) store.Limit {
	if said := withAlgorithm(found.Limit, store.SlidingLog); said.Period > 0 {
		return said
	}
	limit := counted(store.Limit{Algorithm: store.SlidingLog}, found.Limit)
	value := &found.Values[0]
	if len(latest) == 0 || value.TTL < 0 || value.TTL > 2*day {
		return limit
	}
	since := time.Duration((float64(found.Now)/1e6 - latest[0]) * float64(time.Second))
	for _, period := range drfPeriods {
		if (since + value.TTL - period).Abs() <= min(clocksDiffer, period/2) {
			limit.Period = period
		}
	}
	return limit
}
