package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func rateLimitRedisVectors() []vector {
	const storeKey = "rl:203.0.113.9"
	key := store.Key{Subject: "203.0.113.9", Name: "rate-limit-redis"}
	told := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true, Decision: d}}
	}
	unsaid := []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 4, ResetAfter: 9 * time.Second}}}
	never := admin.Defect{Kind: admin.NeverExpires, Stuck: true,
		Text: "no expiry, so the key stays although it counts for nothing (a hit taken back after the window's end)"}
	return []vector{
		{name: "four hits", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "4", 9*time.Second)},
			want:   told(store.Decision{Allowed: true, Used: 4, Remaining: 6, ResetAfter: 9 * time.Second})},
		{name: "at the limit", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "10", 9*time.Second)},
			want:   told(store.Decision{Used: 10, RetryAfter: 9 * time.Second, ResetAfter: 9 * time.Second})},
		{name: "a network", storeKey: "rl:2001:db8::/56", key: store.Key{Subject: "2001:db8::/56", Name: "rate-limit-redis"},
			certain: true, values: []Value{text("rl:2001:db8::/56", "4", 9*time.Second)}, want: unsaid},
		{name: "somebody's counter", storeKey: "rl:user:42", key: store.Key{Subject: "user:42", Name: "rate-limit-redis"},
			values: []Value{text("rl:user:42", "4", 9*time.Second)}, want: unsaid},
		{name: "taken back", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "-1", -1)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true, Defects: []admin.Defect{never},
				Decision: store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "a counter without an expiry", storeKey: storeKey, key: key, limit: tenPerMinute,
			values: []Value{text(storeKey, "57", -1)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true, Defects: []admin.Defect{never},
				Decision: store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "a hash", storeKey: storeKey, key: key, wrong: "a hash, not a string",
			values: []Value{hash(storeKey, time.Minute, "a", "b")}},
	}
}
