package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func redisRateVectors() []vector {
	const storeKey = "rate:project:123"
	key := store.Key{Subject: "project:123", Name: "redis_rate"}
	said := store.Limit{Count: 10, Period: time.Minute, Burst: 10}
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 10}
	now := store.Instant((redisRateEpoch + 312_065_532) * 1_000_000)
	entry := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: limit, ResetTold: true, Decision: d}}
	}
	return []vector{
		{name: "three taken", storeKey: storeKey, key: key, limit: said, now: now, certain: true,
			values: []Value{text(storeKey, "312065549.42308903", 18*time.Second)},
			want:   entry(store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 17_423_089_027})},
		{name: "all taken", storeKey: storeKey, key: key, limit: said, now: now, certain: true,
			values: []Value{text(storeKey, "312065591.5", 60*time.Second)},
			want: entry(store.Decision{Used: 10, Remaining: 0, ResetAfter: 59_500 * time.Millisecond,
				RetryAfter: 5_500 * time.Millisecond})},
		{name: "without the limit", storeKey: storeKey, key: key, now: now, certain: true,
			values: []Value{text(storeKey, "312065549.5", 18*time.Second)},
			want: []admin.Entry{{UsedUnknown: true, ResetTold: true,
				Decision: store.Decision{ResetAfter: 17_500 * time.Millisecond}}}},
		{name: "a TTL of its own", storeKey: storeKey, key: key, now: now,
			values: []Value{text(storeKey, "312065549.5", time.Hour)},
			want: []admin.Entry{{UsedUnknown: true, ResetTold: true,
				Decision: store.Decision{ResetAfter: 17_500 * time.Millisecond}}}},
		{name: "a word", storeKey: storeKey, key: key, now: now, wrong: "not a time in seconds since 2017",
			values: []Value{text(storeKey, "hello", time.Minute)}},
		{name: "a count of v7", storeKey: storeKey, key: key, now: now, wrong: "not a time in seconds since 2017",
			values: []Value{text(storeKey, "3", time.Minute)}},
		{name: "not a number", storeKey: storeKey, key: key, now: now, wrong: "not a time in seconds since 2017",
			values: []Value{text(storeKey, "nan", time.Minute)}},
		{name: "more is used than the burst, since the limit was lowered", storeKey: storeKey, key: key, limit: said, now: now,
			certain: true,
			values:  []Value{text(storeKey, "312065604.5", 73*time.Second)},
			want:    entry(store.Decision{Used: 13, ResetAfter: 72_500 * time.Millisecond, RetryAfter: 18_500 * time.Millisecond})},
		{name: "no expiry", storeKey: storeKey, key: key, now: now,
			values: []Value{text(storeKey, "312065549.5", -1)},
			want: []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: 17_500 * time.Millisecond},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "a hash", storeKey: storeKey, key: key, now: now, wrong: "a hash, not a string",
			values: []Value{hash(storeKey, time.Minute, "a", "b")}},
	}
}
