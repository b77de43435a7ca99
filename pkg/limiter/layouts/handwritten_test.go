package layouts

import (
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func tokenHashVectors() []vector {
	const storeKey = "bucket:203.0.113.9"
	key := store.Key{Subject: storeKey, Name: "token-hash"}
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 5} // 6 s a token
	of := func(ttl time.Duration, fields ...string) []Value { return []Value{hash(storeKey, ttl, fields...)} }
	// Half a token, 9 s ago: two now.
	two := []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Used: 3, Remaining: 2, ResetAfter: 18 * time.Second}}}
	at := func(name string, fields ...string) vector {
		return vector{name: name, storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: true,
			values: of(time.Minute, append([]string{"tokens", "0.5"}, fields...)...), want: two}
	}
	return []vector{
		at("seconds", "last_refill", "1795294322.45"),
		at("milliseconds", "last_refill", "1795294322450"),
		at("microseconds", "last_refill", "1795294322450000"),
		at("nanoseconds", "last_refill", "1795294322450000000"),
		at("another name", "last_refill_ts", "1795294322.45"),
		at("an exponent", "last_refill", "1.79529432245e+09"),
		{name: "empty, in whole seconds", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: true,
			values: of(time.Minute, "tokens", "0", "last_refill", "1795294331"),
			want: []admin.Entry{{Limit: limit,
				Decision: store.Decision{Used: 5, ResetAfter: 29_550 * time.Millisecond, RetryAfter: 5550 * time.Millisecond}}}},
		{name: "in debt", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: true,
			values: of(time.Minute, "tokens", "-2", "last_refill", "1795294331.45"),
			want: []admin.Entry{{Limit: limit,
				Decision: store.Decision{Used: 7, ResetAfter: 42 * time.Second, RetryAfter: 18 * time.Second}}}},
		{name: "without the limit", storeKey: storeKey, key: key, now: arrivalNow, certain: true,
			values: of(time.Minute, "tokens", "0.5", "last_refill", "1795294322.45"), want: []admin.Entry{{UsedUnknown: true}}},
		{name: "kept for ever, as what somebody owns", storeKey: storeKey, key: key, now: arrivalNow,
			values: of(-1, "tokens", "0.5", "last_refill", "1795294322.45"),
			want: []admin.Entry{{UsedUnknown: true, Defects: []admin.Defect{
				{Kind: admin.NeverExpires, Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "with other fields", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow,
			values: of(time.Minute, "tokens", "0.5", "last_refill", "1795294322.45", "name", "x"), want: two},
		{name: "a date", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a hash whose last_refill is not a time",
			values: of(time.Minute, "tokens", "0.5", "last_refill", "2026-11-21")},
		{name: "a time of long ago", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a hash whose last_refill is not a time",
			values: of(time.Minute, "tokens", "0.5", "last_refill", "17")},
		{name: "NaN", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a hash whose tokens are not a number",
			values: of(time.Minute, "tokens", "NaN", "last_refill", "1795294322.45")},
		{name: "Traefik's", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a hash without the fields tokens and last_refill",
			values: of(time.Minute, "tokens", "0.5", "last", "1795294322450000")},
	}
}

func timeSetVectors() []vector {
	const storeKey = "rate_limit:203.0.113.9"
	key := store.Key{Subject: storeKey, Name: "time-set"}
	said := store.Limit{Count: 3, Period: time.Minute}
	limit := store.Limit{Algorithm: store.SlidingLog, Count: 3, Period: time.Minute, Burst: 3}
	set := func(scores ...float64) []Value {
		value := Value{StoreKey: storeKey, Type: SortedSetValue, TTL: time.Minute, Length: int64(len(scores))}
		for _, score := range scores {
			value.Members = append(value.Members, Member{Name: "x", Score: score})
		}
		return []Value{value}
	}
	// 61, 40 and 10 s ago.
	entry := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: limit, ResetTold: true, Decision: d}}
	}
	two := entry(store.Decision{Allowed: true, Used: 2, Remaining: 1, ResetAfter: 50 * time.Second})
	at := func(name string, values []Value) vector {
		return vector{name: name, storeKey: storeKey, key: key, limit: said, now: arrivalNow, values: values, want: two}
	}
	many := set(slices.Repeat([]float64{1795294321.5}, MostMembers)...)
	many[0].Length = MostMembers + 1
	return []vector{
		at("milliseconds", set(1795294270450, 1795294291450, 1795294321450)),
		{name: "nanoseconds, as a float has them", storeKey: storeKey, key: key, limit: said, now: arrivalNow,
			values: set(1795294270450e6, 1795294291450e6, 1795294321450e6),
			want:   entry(store.Decision{Allowed: true, Used: 2, Remaining: 1, ResetAfter: 49_999_999_872})},
		{name: "seconds", storeKey: storeKey, key: key, limit: said, now: arrivalNow, values: set(1795294270.5, 1795294291.5, 1795294321.5),
			want: entry(store.Decision{Allowed: true, Used: 2, Remaining: 1, ResetAfter: 50_050 * time.Millisecond})},
		{name: "all taken, and one too many", storeKey: storeKey, key: key, limit: said, now: arrivalNow,
			values: set(1795294272450, 1795294282450, 1795294291450, 1795294321450),
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 4, ResetAfter: 50 * time.Second, RetryAfter: 11 * time.Second}}}},
		{name: "a request of just a period ago does not count", storeKey: storeKey, key: key, limit: said, now: arrivalNow,
			values: set(1795294271450, 1795294291450, 1795294321450), want: two},
		{name: "all over", storeKey: storeKey, key: key, limit: said, now: arrivalNow, values: set(1795294261450),
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Remaining: 3}}}},
		{name: "more than is read", storeKey: storeKey, key: key, limit: said, now: arrivalNow, values: many,
			want: []admin.Entry{{Limit: limit, UsedUnknown: true, ResetTold: true, RetryTold: true,
				Decision: store.Decision{ResetAfter: 50_050 * time.Millisecond, RetryAfter: 50_050 * time.Millisecond},
				Defects:  []admin.Defect{{Kind: admin.Grows, Stuck: true, Text: "it only grows: nothing removes what was added"}}}}},
		{name: "without the limit", storeKey: storeKey, key: key, now: arrivalNow, values: set(1795294321450),
			want: []admin.Entry{{UsedUnknown: true}}},
		{name: "scores of a game", storeKey: storeKey, key: key, now: arrivalNow, values: set(12, 40, 1700),
			wrong: "a sorted set whose scores are not times"},
		{name: "a negative score", storeKey: storeKey, key: key, now: arrivalNow, values: set(-1e300, 1795294321450),
			wrong: "a sorted set whose scores are not times"},
		{name: "a list", storeKey: storeKey, key: key, now: arrivalNow, values: []Value{{StoreKey: storeKey, Type: ListValue}},
			wrong: "a list, not a zset"},
	}
}

// Without being asked nobody is warned of an integer or a set of times under any name.
func TestHandwrittenNames(t *testing.T) {
	for storeKey, is := range map[string]bool{
		"rate_limit:9": true, "api:RateLimit:9": true, "throttle:9": true, "rl:9": true, "quota:9": true,
		"session:9": false, "views": false, "timeline:9": false,
	} {
		for _, layout := range []Layout{counter, timeSet{}} {
			if _, ok := layout.Match(storeKey, false); ok != is {
				t.Errorf("%s matches %s: %v, want %v", layout.Info().Name, storeKey, ok, is)
			}
			if _, ok := layout.Match(storeKey, true); !ok {
				t.Errorf("%s does not match %s, although it is asked for", layout.Info().Name, storeKey)
			}
		}
	}
}
