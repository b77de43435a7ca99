package layouts

import (
	"strconv"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// timesSet is a sorted set of times in ns, as scores and as members.
func timesSet(storeKey string, ttl time.Duration, times ...int64) Value {
	value := Value{StoreKey: storeKey, Type: SortedSetValue, TTL: ttl, Length: int64(len(times))}
	for _, at := range times {
		value.Members = append(value.Members, Member{Name: strconv.FormatInt(at, 10), Score: float64(at)})
	}
	return value
}

// tykVectors are built from the rules of the gateway.
func tykVectors() []vector {
	const (
		rate    = "rate-limit-1a2b3c4d"
		blocked = rate + ".BLOCKED"
		quota   = "quota-api-1a2b3c4d"
		now     = store.Instant(1_795_294_335_000_000)
		second  = int64(time.Second)
		nowNs   = int64(now) * 1000
	)
	key := store.Key{Subject: "1a2b3c4d", Name: "tyk/rate"}
	quotaKey := store.Key{Subject: "api-1a2b3c4d", Name: "tyk/quota"}
	limit := store.Limit{Algorithm: store.SlidingLog, Count: 3, Period: 10 * time.Second, Burst: 3}
	times := []int64{nowNs - 10*second, nowNs - 9*second - 7, nowNs - 4*second, nowNs - second}
	return []vector{
		{name: "three in ten seconds", storeKey: rate, key: key, now: now, limit: limit, certain: true,
			values: []Value{timesSet(rate, 9*time.Second, times...)},
			want: []admin.Entry{{Limit: limit, ResetTold: true,
				Decision: store.Decision{Used: 3, RetryAfter: time.Second, ResetAfter: 9 * time.Second}}}},
		{name: "the period by the expiry", storeKey: rate, key: key, now: now, certain: true,
			values: []Value{timesSet(rate, 9001*time.Millisecond, times...)},
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.SlidingLog, Period: 10 * time.Second}, ResetTold: true,
				Decision: store.Decision{Used: 3, ResetAfter: 9 * time.Second}}}},
		{name: "clocks that differ", storeKey: rate, key: key, now: now, certain: true,
			values: []Value{timesSet(rate, 9400*time.Millisecond, times...)},
			want:   []admin.Entry{{Limit: store.Limit{Algorithm: store.SlidingLog}, UsedUnknown: true}}},
		{name: "one left", storeKey: rate, key: key, now: now + 1_000_000, limit: limit, certain: true,
			values: []Value{timesSet(rate, 8*time.Second, times...)},
			want: []admin.Entry{{Limit: limit, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 2, Remaining: 1, ResetAfter: 8 * time.Second}}}},
		{name: "blocked", storeKey: blocked, key: key, now: now, limit: limit, certain: true,
			values: []Value{timesSet(rate, 9*time.Second, times[2:]...), text(blocked, "1", 9500*time.Millisecond)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 2, RetryAfter: 9500 * time.Millisecond, ResetAfter: 9500 * time.Millisecond}}}},
		{name: "members that are no times", storeKey: rate, key: key, wrong: "a sorted set whose members are not times",
			values: []Value{{StoreKey: rate, Type: SortedSetValue, Length: 1, TTL: time.Second,
				Members: []Member{{Name: "alice", Score: 3}}}}},
		{name: "a quota", storeKey: quota, key: quotaKey, now: now, limit: store.Limit{Count: 100, Period: time.Hour},
			values: []Value{text(quota, "40", 30*time.Minute)},
			want: []admin.Entry{{ResetTold: true, RetryTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Count: 100, Period: time.Hour, Burst: 100, FromFirst: true},
				Decision: store.Decision{Allowed: true, Used: 40, Remaining: 60, ResetAfter: 30 * time.Minute}}}},
	}
}

// TestTykLongWindow: of more requests than are read, all within the period, the number is not known.
func TestTykLongWindow(t *testing.T) {
	v := tykVectors()[0]
	v.limit.Period = time.Minute
	found := v.found(tyk{}, store.Key{})
	found.Values[0].Length = 20_000
	reading, err := decode(tyk{}, found)
	if err != nil || reading.Entries[0].UsedKnown() {
		t.Errorf("%+v, %v", reading, err)
	}
}

func TestTykSetRemaining(t *testing.T) {
	v := tykVectors()
	checkSet(t, tyk{}, v[6].found(tyk{}, store.Key{}), 99, Write{StoreKey: v[6].storeKey, Text: "1"})
	if _, err := (tyk{}).SetRemaining(v[0].found(tyk{}, store.Key{}), 1); err == nil {
		t.Error("it sets what remains of a rolling window")
	}
}
