package layouts

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// laravel is the rate limiter of Laravel. On its cache it has a counter, and beside it a timer:
// the Unix time in seconds at which the window ends. Its Redis::throttle, which is also behind
// the middleware ThrottleRequestsWithRedis, has a hash with the window's start, end and count.
type laravel struct{}

const laravelTimer = ":timer"

// Info implements [Layout]. The facts are from github.com/laravel/framework 035c7233 and 050bd033.
func (laravel) Info() Info {
	return Info{
		Name: "laravel", Writer: "Laravel (RateLimiter on a Redis cache, and Redis::throttle)",
		Example: "laravel_database_laravel_cache_:da39a3ee5e6b4b0d3255bfef95601890afd80709",
		Needs:   "the limit; of Redis::throttle the count",
	}
}

// Match implements [Layout]. A key is the prefix of the connection, that of the cache, and a
// name, which usually is a hash: MD5 of a named limiter, SHA-1 of a user or an address. The
// prefixes are made of the application's name, so the hash is all that is usual.
func (laravel) Match(storeKey string, asked bool) (store.Key, bool) {
	counter := strings.TrimSuffix(storeKey, laravelTimer)
	name := strings.TrimSuffix(counter, "}") // of a hash in the newest versions
	at := len(name)
	for at > 0 && isHex(name[at-1:at]) {
		at--
	}
	// A prefix may end in what looks like a digit of the hash, but ends in a mark if it is usual.
	if digits := len(name) - at; (digits == 32 || digits == 40) && (at == 0 || strings.IndexByte(":_-{", name[at-1]) >= 0) {
		return store.Key{Subject: name[at:], Name: "laravel"}, true
	}
	return store.Key{Subject: counter, Name: "laravel"}, asked && counter != ""
}

// Together implements [Layout].
func (laravel) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	counter := strings.TrimSuffix(storeKey, laravelTimer)
	return []string{counter, counter + laravelTimer}
}

// Decode implements [Layout].
func (l laravel) Decode(found *Found) (Reading, error) {
	counter, timer := &found.Values[0], &found.Values[1]
	switch {
	case counter.Type == NoValue:
		return Reading{}, nil // a timer alone counts nothing
	case counter.Type == HashValue:
		return l.duration(found, counter)
	case counter.Type != StringValue:
		return Reading{}, notA(counter.Type, StringValue, HashValue)
	}
	count, err := countOf(counter)
	if err != nil {
		return Reading{}, err
	}
	limit := fromFirst(found.Limit)
	if timer.Type == NoValue {
		// At the limit the count begins anew, below it goes on with the next request.
		if limit.Count > 0 && count >= limit.Count {
			count = 0
		}
		return lifetime{passes: true}.reading(found, countEntry(limit, count, counter.TTL), false)
	}
	opens, err := countOf(timer)
	if err != nil {
		return Reading{}, err
	}
	// The counter may be kept for longer than its timer, which is what denies.
	entry := countEntry(limit, count, timer.TTL)
	entry.Defects = lifetime{}.defects(&entry, found.Values[1:])
	if len(entry.Defects) == 0 {
		entry.Defects = lifetime{passes: true}.defects(&entry, found.Values[:1])
	}
	left := time.Unix(opens, 0).Sub(time.UnixMicro(int64(found.Now)))
	return Reading{Entries: []admin.Entry{entry}, Certain: count >= 0 && agrees(left, timer.TTL, time.Second)}, nil
}

// duration decodes the hash of Redis::throttle.
func (laravel) duration(found *Found, value *Value) (Reading, error) {
	var numbers [3]int64
	for i, field := range [...]string{"start", "end", "count"} {
		text, has := value.Field(field)
		number, err := strconv.ParseInt(text, 10, 64)
		if !has || err != nil || number < 0 || value.Length != 3 {
			return Reading{}, errors.New("a hash without the numbers start, end and count alone")
		}
		numbers[i] = number
	}
	start, end, count := numbers[0], numbers[1], numbers[2]
	if start > end || end > int64(found.Now)/1_000_000+int64(2*store.MaxPeriod/time.Second) {
		return Reading{}, errors.New("a hash whose start and end are not times of a window")
	}
	limit := counted(store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Period: time.Duration(end-start) * time.Second},
		found.Limit)
	left := time.UnixMicro(end * 1_000_000).Sub(time.UnixMicro(int64(found.Now)))
	certain := agrees(left+limit.Period, value.TTL, 0)
	if left < 0 || limit.Period == 0 {
		count, left = 0, 0 // it is over
	}
	entry := countEntry(limit, count, left)
	entry.Defects = lifetime{longest: 2 * limit.Period, needed: left, passes: true}.defects(&entry, found.Values[:1])
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}
