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

// tyk is the Tyk gateway: its rolling window, a sorted set with a member for each request, and
// its quotas, which are counters. The clock is the gateway's.
type tyk struct{}

const (
	tykRate, tykQuota = "rate-limit-", "quota-"
	// tykSentinel is behind the key of a rolling window in the key that the sentinel rate
	// limiter blocks by.
	tykSentinel = ".BLOCKED"
)

// Info implements [Layout].
func (tyk) Info() Info {
	return Info{
		Name: "tyk", Called: "a limit of Tyk",
		Writer: "Tyk Gateway: rolling rate limiter, quotas", Example: "rate-limit-1a2b3c4d", Type: "sorted set or string",
		Prefixes: []string{tykRate, tykQuota}, Needs: "the limit", Source: "github.com/TykTechnologies/tyk 31e219be",
	}
}

// Match implements [Layout]. Who is limited is a hash of the API key, perhaps with a scope before
// it and a hash of the endpoint behind it.
func (tyk) Match(storeKey string, _ bool) (store.Key, bool) {
	storeKey = strings.TrimSuffix(storeKey, tykSentinel)
	if subject, ok := strings.CutPrefix(storeKey, tykRate); ok {
		return store.Key{Subject: subject, Name: "tyk/rate"}, subject != ""
	}
	subject, ok := strings.CutPrefix(storeKey, tykQuota)
	return store.Key{Subject: subject, Name: "tyk/quota"}, ok && subject != ""
}

// Together implements [Layout].
func (tyk) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	if !strings.HasPrefix(storeKey, tykRate) {
		return []string{storeKey}
	}
	storeKey = strings.TrimSuffix(storeKey, tykSentinel)
	return []string{storeKey, storeKey + tykSentinel}
}

// Decode implements [Layout]. Denied requests count, too.
func (tyk) Decode(found *Found) (Reading, error) {
	if len(found.Values) == 2 {
		return decodeTykRate(found)
	}
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	return lifetime{longest: found.Limit.Period}.reading(found, countEntry(fromFirst(found.Limit), count, value.TTL), false)
}

// tykTimes returns the times of a rolling window in ns since 1970, in ascending order. The
// scores are the same times, as precise as a floating-point number is.
func tykTimes(value *Value) ([]int64, error) {
	const precision = 512 // ns, of a time in this century
	times := make([]int64, len(value.Members))
	for i, member := range value.Members {
		at, err := strconv.ParseInt(member.Name, 10, 64)
		if err != nil || !(math.Abs(float64(at)-member.Score) <= precision) {
			return nil, errors.New("a sorted set whose members are not times")
		}
		times[i] = at
	}
	return times, nil
}

func decodeTykRate(found *Found) (Reading, error) {
	set, sentinel := &found.Values[0], &found.Values[1]
	if set.Type != NoValue && set.Type != SortedSetValue {
		return Reading{}, notA(set.Type, SortedSetValue)
	}
	if sentinel.Type != NoValue && (sentinel.Type != StringValue || string(sentinel.Text) != "1") {
		return Reading{}, errors.New("a mark of a blocked client that is not 1")
	}
	times, err := tykTimes(set)
	if err != nil {
		return Reading{}, err
	}
	said := withAlgorithm(found.Limit, store.SlidingLog)
	entry := admin.Entry{Limit: said, UsedUnknown: true}
	if entry.Limit.Period == 0 {
		entry.Limit = counted(store.Limit{Algorithm: store.SlidingLog, Period: tykPeriod(set, times, found.Now)}, found.Limit)
	}
	if entry.Limit.Period > 0 {
		logEntry(&entry, times, set.Length, int64(found.Now)*1000)
	}
	kept := lifetime{longest: entry.Limit.Period, passes: true}
	if sentinel.Type != NoValue && sentinel.TTL >= 0 {
		blockEntry(&entry, sentinel.TTL)
	}
	entry.Defects = kept.defects(&entry, found.Values[:1])
	if sentinel.TTL < 0 && sentinel.Type != NoValue {
		entry.Defects = append(entry.Defects, admin.Defect{Kind: admin.NeverExpires, Stuck: true,
			Text: "the mark of a blocked client has no expiry, so the client is denied for ever"})
	}
	certain := len(times) > 0 && set.TTL > 0 && isTykClient(found.Key.Subject)
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// tykPeriod returns the period of a rolling window: each request sets the expiry to it, and is
// the last one of the window. It is 0 if the clocks of the gateway and of Redis differ too much
// to tell.
func tykPeriod(set *Value, times []int64, now store.Instant) time.Duration {
	if len(times) == 0 || set.TTL < 0 || set.TTL > store.MaxPeriod {
		return 0
	}
	const differ = 200 * time.Millisecond
	since := time.Duration(int64(now)*1000 - times[len(times)-1])
	period := (since + set.TTL).Round(time.Second)
	if since < 0 || period <= 0 || (since+set.TTL-period).Abs() > differ {
		return 0
	}
	return period
}

// isTykClient reports whether the last part of what stands for a client is a hash, as Tyk makes
// it unless its keys are not hashed.
func isTykClient(subject string) bool {
	part := subject[strings.LastIndexByte(subject, '-')+1:]
	return len(part) >= len("1a2b3c4d") && isHex(part)
}

// SetRemaining implements [Setter], for quotas. A rolling window cannot be written with one value.
func (tyk) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	if len(found.Values) == 2 {
		return nil, store.Invalidf("the requests of key %q cannot be set; reset it to remove them", found.StoreKey)
	}
	return setCounter(&found.Values[0], found.Limit, remaining, found.Limit.Period)
}
