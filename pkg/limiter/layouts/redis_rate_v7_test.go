package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func redisRateWindowsVectors() []vector {
	const (
		minute = "rate:project:123-29921572" // from 1795294320 to 1795294380
		rated  = "rate:api-1000000000-1795294331"
		slow   = "rate:api-20000000000-89764716" // from 1795294320 to 1795294340
	)
	key := store.Key{Subject: "project:123", Name: "redis_rate-v7"}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	window := store.Limit{Algorithm: store.FixedWindow, Period: time.Minute}
	said := store.Limit{Count: 10, Period: time.Minute}
	const until = 48_550 * time.Millisecond
	return []vector{
		{name: "three counted", storeKey: minute, key: key, limit: said, now: arrivalNow, certain: true,
			values: []Value{text(minute, "3", 85*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: until}}}},
		{name: "more than the limit", storeKey: minute, key: key, limit: said, now: arrivalNow, certain: true,
			values: []Value{text(minute, "12", 90*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 12, ResetAfter: until, RetryAfter: until}}}},
		{name: "the number tells the period", storeKey: minute, key: key, now: arrivalNow, certain: true,
			values: []Value{text(minute, "3", 85*time.Second)},
			want:   []admin.Entry{{Limit: window, ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: until}}}},
		{name: "kept for less than any request would have it", storeKey: minute, key: key, now: arrivalNow,
			values: []Value{text(minute, "3", 50*time.Second)},
			want:   []admin.Entry{{Limit: window, ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: until}}}},
		{name: "the window before", storeKey: minute, key: key, limit: said, now: arrivalNow + 60_000_000, certain: true,
			values: []Value{text(minute, "3", 25*time.Second)},
			want: []admin.Entry{{Key: store.Key{Subject: "project:123", Name: "redis_rate-v7@29921572"}, Limit: limit, ResetTold: true,
				RetryTold: true,
				Decision:  store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "of a rate", storeKey: rated, key: store.Key{Subject: "api", Name: "redis_rate-v7/1s"}, now: arrivalNow, certain: true,
			limit: store.Limit{Count: 5, Period: time.Second}, values: []Value{text(rated, "5", 31*time.Second)},
			want: []admin.Entry{{ResetTold: true, RetryTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Count: 5, Period: time.Second, Burst: 5},
				Decision: store.Decision{Used: 5, ResetAfter: 550 * time.Millisecond, RetryAfter: 550 * time.Millisecond}}}},
		{name: "of a rate below one a second, which has one request", storeKey: slow, now: arrivalNow, certain: true,
			key: store.Key{Subject: "api", Name: "redis_rate-v7/20s"}, values: []Value{text(slow, "1", 50*time.Second)},
			want: []admin.Entry{{ResetTold: true, RetryTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Count: 1, Period: 20 * time.Second, Burst: 1},
				Decision: store.Decision{Used: 1, ResetAfter: 8550 * time.Millisecond, RetryAfter: 8550 * time.Millisecond}}}},
		{name: "a number that tells no period", storeKey: "rate:user-12345678", key: store.Key{Subject: "user", Name: "redis_rate-v7"},
			now: arrivalNow, values: []Value{text("rate:user-12345678", "3", time.Minute)},
			want: []admin.Entry{{UsedUnknown: true,
				Limit: store.Limit{Algorithm: store.FixedWindow}}}},
		{name: "no expiry", storeKey: minute, key: key, now: arrivalNow,
			values: []Value{text(minute, "3", -1)},
			want: []admin.Entry{{Limit: window, ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: until},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "a time of v8", storeKey: minute, key: key, now: arrivalNow, wrong: "a string that is not a whole number",
			values: []Value{text(minute, "312065549.42308903", time.Minute)}},
	}
}
