package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// springVectors are built from the formulas of the limiter's script.
func springVectors() []vector {
	const tokens, timestamp = "request_rate_limiter.{users.42}.tokens", "request_rate_limiter.{users.42}.timestamp"
	key := store.Key{Subject: "users.42", Name: "spring-cloud-gateway"}
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 2, Period: time.Second, Burst: 10}
	const now store.Instant = 1_795_294_331_250_000
	return []vector{
		{name: "seven left, a second ago", storeKey: tokens, key: key, limit: limit, now: now, certain: true,
			values: []Value{text(tokens, "5", 9*time.Second), text(timestamp, "1795294330", 9*time.Second)},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7,
				ResetAfter: 1750 * time.Millisecond}}}},
		{name: "by the timestamp, empty in this second", storeKey: timestamp, key: key, limit: limit, now: now, certain: true,
			values: []Value{text(tokens, "0", 10*time.Second), text(timestamp, "1795294331", 10*time.Second)},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Used: 10, RetryAfter: 750 * time.Millisecond,
				ResetAfter: 4750 * time.Millisecond}}}},
		{name: "one token in five seconds, a fraction held, the client alone in the key",
			storeKey: "request_rate_limiter.{203.0.113.9}.tokens", key: store.Key{Subject: "203.0.113.9", Name: key.Name},
			limit: store.Limit{Count: 1, Period: 5 * time.Second, Burst: 3}, now: now, certain: true,
			values: []Value{text("request_rate_limiter.{203.0.113.9}.tokens", "0.4", 20*time.Second),
				text("request_rate_limiter.{203.0.113.9}.timestamp", "1795294331", 20*time.Second)},
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: 5 * time.Second, Burst: 3},
				Decision: store.Decision{Used: 3, RetryAfter: 2750 * time.Millisecond, ResetAfter: 12_750 * time.Millisecond}}}},
		{name: "without the limit", storeKey: tokens, key: key, now: now, certain: true,
			values: []Value{text(tokens, "5", 9*time.Second), text(timestamp, "1795294330", 9*time.Second)},
			want:   []admin.Entry{{UsedUnknown: true}}},
		{name: "without the timestamp", storeKey: tokens, key: key, limit: limit, now: now,
			values: []Value{text(tokens, "5", 9*time.Second)},
			want:   []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "a word", storeKey: tokens, key: key, wrong: "a string that is not a number",
			values: []Value{text(tokens, "NaN", time.Second), text(timestamp, "1795294330", time.Second)}},
		{name: "a time in ms", storeKey: tokens, key: key, wrong: "impossible tokens or an impossible time",
			values: []Value{text(tokens, "1", time.Second), text(timestamp, "1795294330000", time.Second)}},
	}
}
