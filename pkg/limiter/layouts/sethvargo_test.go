package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func sethvargoVectors() []vector {
	const storeKey = "203.0.113.9"
	key := store.Key{Subject: storeKey, Name: "sethvargo"}
	// 1.7952943314667049e+18 is 1795294331466704896 ns.
	const now = store.Instant(1_795_294_341_466_705) // 10.000000104 s later
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10, FromFirst: true}
	unknown := limit
	unknown.Period = 0
	of := func(ttl time.Duration, fields ...string) []Value { return []Value{hash(storeKey, ttl, fields...)} }
	entry := func(d store.Decision) []admin.Entry { return []admin.Entry{{Limit: limit, Decision: d}} }
	return []vector{
		{name: "three taken", storeKey: storeKey, key: key, now: now, certain: true, limit: store.Limit{Count: 3, Period: time.Minute},
			values: of(175*time.Second, "s", "1.7952943314667049e+18", "t", "0", "m", "10", "k", "7"),
			want:   entry(store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 49_999_999_896})},
		{name: "all taken in the third window", storeKey: storeKey, key: key, now: now + 120_000_000, certain: true,
			values: of(175*time.Second, "s", "1.7952943314667049e+18", "t", "2", "m", "10", "k", "0", "i", "60000000000"),
			want:   entry(store.Decision{Used: 10, ResetAfter: 49_999_999_896, RetryAfter: 49_999_999_896})},
		{name: "the tokens are of the window before", storeKey: storeKey, key: key, now: now + 180_000_000, certain: true,
			values: of(115*time.Second, "s", "1.7952943314667049e+18", "t", "2", "m", "10", "k", "0", "i", "60000000000"),
			want:   entry(store.Decision{Allowed: true, Remaining: 10, ResetAfter: 49_999_999_896})},
		{name: "the first window has not ended", storeKey: storeKey, key: key, now: now, certain: true,
			values: of(175*time.Second, "s", "1.7952943314667049e+18", "t", "0", "m", "10", "k", "7"),
			want:   []admin.Entry{{Limit: unknown, Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7}}}},
		{name: "the first window may have ended", storeKey: storeKey, key: key, now: now, certain: true,
			values: of(25*time.Second, "s", "1.7952943314667049e+18", "t", "0", "m", "10", "k", "7"),
			want:   []admin.Entry{{Limit: unknown, UsedUnknown: true}}},
		{name: "somebody gave it tokens, so its expiry says nothing", storeKey: storeKey, key: key, now: now, certain: true,
			values: of(sethvargoWeek-5*time.Second, "s", "1.7952943314667049e+18", "t", "0", "m", "10", "k", "12"),
			want:   []admin.Entry{{Limit: unknown, UsedUnknown: true}}},
		{name: "set, and nothing taken", storeKey: storeKey, key: key, now: now,
			values: of(sethvargoWeek-5*time.Second, "m", "10", "k", "10", "i", "60000000000"),
			want:   entry(store.Decision{Allowed: true, Remaining: 10, ResetAfter: 59_999_999_896})},
		{name: "other fields", storeKey: storeKey, key: key, now: now, wrong: "a hash with other fields than s, t, i, m and k",
			values: of(time.Minute, "s", "1", "t", "0", "m", "10", "k", "7", "x", "1")},
		{name: "words", storeKey: storeKey, key: key, now: now, wrong: "a hash with a field that is not a number",
			values: of(time.Minute, "s", "NaN", "t", "0", "m", "10", "k", "7")},
		{name: "no limit", storeKey: storeKey, key: key, now: now, wrong: "a hash with a number that no limit has",
			values: of(time.Minute, "s", "1", "t", "0", "m", "0", "k", "0")},
		{name: "tokens alone", storeKey: storeKey, key: key, now: now, wrong: "a hash without the fields m and k",
			values: of(time.Minute, "k", "5")},
	}
}
