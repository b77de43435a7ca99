package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// arrivalNow is an instant, and arrivals are of limiters that keep ns, at 10 a minute with a
// burst of 5: 6 s a unit.
const arrivalNow store.Instant = 1_795_294_331_450_000

var (
	arrivalSaid  = store.Limit{Count: 10, Period: time.Minute, Burst: 5}
	arrivalLimit = store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 5}
)

// arrivalVectors are what all limiters write that keep an arrival time in ns, under a key of one
// of them. kept is how much longer than until the arrival time it keeps the key. If it is
// certain of one that is kept for just as long, it is not of one that is kept for an hour.
func arrivalVectors(storeKey string, key store.Key, kept time.Duration, certain bool) []vector {
	entry := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: arrivalLimit, ResetTold: true, Decision: d}}
	}
	unknown := []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 7500 * time.Millisecond}}}
	return []vector{
		{name: "one and a quarter taken", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "1795294338950000000", 7500*time.Millisecond+kept)},
			want:   entry(store.Decision{Allowed: true, Used: 2, Remaining: 3, ResetAfter: 7500 * time.Millisecond})},
		{name: "all taken", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "1795294361449999001", 30*time.Second+kept)},
			want:   entry(store.Decision{Used: 5, ResetAfter: 29_999_999_001, RetryAfter: 5_999_999_001})},
		{name: "the limit was lowered", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "1795294391450000000", time.Minute+kept)},
			want:   entry(store.Decision{Used: 10, ResetAfter: time.Minute, RetryAfter: 36 * time.Second})},
		{name: "just paid", storeKey: storeKey, key: key, limit: arrivalSaid, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "1795294331350000000", 800*time.Millisecond+kept)},
			want:   entry(store.Decision{Allowed: true, Remaining: 5})},
		{name: "without the limit", storeKey: storeKey, key: key, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "1795294338950000000", 7*time.Second+kept)}, want: unknown},
		{name: "a limit of more units than nanoseconds", storeKey: storeKey, key: key, now: arrivalNow, certain: certain,
			limit:  store.Limit{Count: 1_000_000_000, Period: time.Millisecond},
			values: []Value{text(storeKey, "1795294338950000000", 7*time.Second+kept)},
			want: []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 7500 * time.Millisecond},
				Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1_000_000_000, Period: time.Millisecond, Burst: 1_000_000_000}}}},
		{name: "no expiry", storeKey: storeKey, key: key, now: arrivalNow,
			values: []Value{text(storeKey, "1795294338950000000", -1)},
			want: []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 7500 * time.Millisecond},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "nothing", storeKey: storeKey, key: key, now: arrivalNow},
		{name: "seconds", storeKey: storeKey, key: key, now: arrivalNow, wrong: "not a time in nanoseconds since 1970",
			values: []Value{text(storeKey, "1795294338", time.Minute)}},
		{name: "more than 64 bits", storeKey: storeKey, key: key, now: arrivalNow, wrong: "not a time in nanoseconds since 1970",
			values: []Value{text(storeKey, "9999999999999999999", time.Minute)}},
		{name: "a sign", storeKey: storeKey, key: key, now: arrivalNow, wrong: "not a time in nanoseconds since 1970",
			values: []Value{text(storeKey, "-179529433895000000", time.Minute)}},
		{name: "a set", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a set, not a string",
			values: []Value{{StoreKey: storeKey, Type: SetValue, TTL: time.Minute, Length: 1}}},
	}
}

func throttledVectors() []vector {
	const storeKey = "throttled:203.0.113.9\nget\n/login\n"
	key := store.Key{Subject: storeKey, Name: "throttled"}
	entry := admin.Entry{Limit: store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Second, Burst: 18}, ResetTold: true,
		Decision: store.Decision{Used: 18, ResetAfter: 1750 * time.Millisecond, RetryAfter: 50 * time.Millisecond}}
	entry.Defects = []admin.Defect{{Kind: admin.ShortTTL,
		Text: "expires before its units have come back, so more is let through than the limit allows"}}
	return append(arrivalVectors(storeKey, key, 0, true),
		vector{name: "expires 0.75 s early, in which 7 units come back", storeKey: storeKey, key: key, now: arrivalNow, certain: true,
			limit:  store.Limit{Count: 10, Period: time.Second, Burst: 18},
			values: []Value{text(storeKey, "1795294333200000000", time.Second)}, want: []admin.Entry{entry}},
		vector{name: "a key of anybody", storeKey: "user:123", key: store.Key{Subject: "user:123", Name: "throttled"}, now: arrivalNow,
			values: []Value{text("user:123", "1795294338950000000", 7*time.Second)},
			want:   []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 7500 * time.Millisecond}}}},
		vector{name: "kept for an hour", storeKey: storeKey, key: key, now: arrivalNow,
			values: []Value{text(storeKey, "1795294338950000000", time.Hour)},
			want:   []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 7500 * time.Millisecond}}}})
}

func gcraNsVectors() []vector {
	const storeKey = "api:203.0.113.9"
	return arrivalVectors(storeKey, store.Key{Subject: storeKey, Name: "gcra-ns"}, 0, false)
}

func redisCellVectors() []vector {
	const storeKey = "user:123"
	key := store.Key{Subject: storeKey, Name: "redis-cell"}
	// 3 a second: 333333333 ns a unit. Of 999999 µs there remain 3 units of 333333 µs.
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 3, Period: time.Second, Burst: 4}
	return append(arrivalVectors(storeKey, key, 0, false),
		vector{name: "remaining is of whole microseconds, one more than nanoseconds say", storeKey: storeKey, key: key, limit: limit,
			now: arrivalNow, values: []Value{text(storeKey, "1795294331783334000", time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 2, Remaining: 3, ResetAfter: 333_334_000}}}},
		vector{name: "remaining a microsecond earlier", storeKey: storeKey, key: key, limit: limit,
			now: arrivalNow, values: []Value{text(storeKey, "1795294331783335000", time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 2, Remaining: 2, ResetAfter: 333_335_000}}}})
}
