package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tenPerMinute is a limit as an operator says it, and windowTen as the layouts of windows from
// the first request on have it.
var (
	tenPerMinute = store.Limit{Count: 10, Period: time.Minute}
	windowTen    = store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Count: 10, Period: time.Minute, Burst: 10}
)

func rateLimiterFlexibleVectors() []vector {
	const storeKey = "rlflx:203.0.113.9"
	key := store.Key{Subject: "203.0.113.9", Name: "rate-limiter-flexible"}
	minute := store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Count: 10, Period: time.Minute, Burst: 10}
	return []vector{
		{name: "three points", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "3", 42*time.Second)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 42 * time.Second}}}},
		{name: "denied twice", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "12", 5*time.Second)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 12, RetryAfter: 5 * time.Second, ResetAfter: 5 * time.Second}}}},
		{name: "blocked for an hour", storeKey: storeKey, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(storeKey, "11", 59*time.Minute)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 11, RetryAfter: 59 * time.Minute, ResetAfter: 59 * time.Minute}}}},
		{name: "blocked for ever", storeKey: storeKey, key: key, limit: tenPerMinute,
			values: []Value{text(storeKey, "11", -1)},
			want:   []admin.Entry{{Limit: minute, Decision: store.Decision{Used: 11}}}},
		{name: "rewarded ahead", storeKey: storeKey, key: key, limit: tenPerMinute,
			values: []Value{text(storeKey, "-2", time.Minute)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Remaining: 12}}}},
		{name: "without the limit", storeKey: storeKey, key: key, certain: true,
			values: []Value{text(storeKey, "3", 42*time.Second)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: 42 * time.Second}}}},
		{name: "a prefix of its own", storeKey: "login_fail:7", key: store.Key{Subject: "login_fail:7", Name: "rate-limiter-flexible"},
			values: []Value{text("login_fail:7", "3", 42*time.Second)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: 42 * time.Second}}}},
		{name: "a text", storeKey: storeKey, key: key, wrong: "a string that is not a whole number",
			values: []Value{text(storeKey, "03", time.Minute)}},
		{name: "a list", storeKey: storeKey, key: key, wrong: "a list, not a string",
			values: []Value{list(storeKey, time.Minute, "1")}},
	}
}
