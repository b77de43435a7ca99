package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func ululeVectors() []vector {
	const storeKey = "limiter:203.0.113.9"
	key := store.Key{Subject: "203.0.113.9", Name: "ulule"}
	return append(countedVectors(storeKey, key, true, " (ulule/limiter#233)"),
		vector{name: "a user", storeKey: "limiter:user:9", key: store.Key{Subject: "user:9", Name: "ulule"}, now: arrivalNow,
			values: []Value{text("limiter:user:9", "3", 40*time.Second)},
			want: []admin.Entry{{ResetTold: true,
				Decision: store.Decision{Used: 3, ResetAfter: 40 * time.Second}}}},
		vector{name: "a prefix of one's own", storeKey: "api:203.0.113.9", key: key, now: arrivalNow})
}

func counterVectors() []vector {
	const storeKey = "rate_limit:203.0.113.9"
	return countedVectors(storeKey, store.Key{Subject: storeKey, Name: "counter"}, false, "")
}

// countedVectors are of windows that begin with their first request.
func countedVectors(storeKey string, key store.Key, certain bool, issue string) []vector {
	said := store.Limit{Count: 10, Period: time.Minute}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10, FromFirst: true}
	return []vector{
		{name: "three counted", storeKey: storeKey, key: key, limit: said, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "3", 40*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 40 * time.Second}}}},
		{name: "denied ones counted", storeKey: storeKey, key: key, limit: said, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "13", 40*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 13, ResetAfter: 40 * time.Second, RetryAfter: 40 * time.Second}}}},
		{name: "without the limit", storeKey: storeKey, key: key, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "3", 40*time.Second)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: 40 * time.Second}}}},
		{name: "with the count alone", storeKey: storeKey, key: key, limit: store.Limit{Count: 3}, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "3", 40*time.Second)},
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.FixedWindow, Count: 3, Burst: 3, FromFirst: true}, ResetTold: true,
				RetryTold: true, Decision: store.Decision{Used: 3, ResetAfter: 40 * time.Second, RetryAfter: 40 * time.Second}}}},
		{name: "no expiry", storeKey: storeKey, key: key, limit: said, now: arrivalNow,
			values: []Value{text(storeKey, "10", -1)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 10, ResetAfter: time.Minute, RetryAfter: time.Minute},
				Defects:  []admin.Defect{{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever" + issue, Stuck: true}}}}},
		{name: "milliseconds given as seconds", storeKey: storeKey, key: key, limit: said, now: arrivalNow, certain: certain,
			values: []Value{text(storeKey, "3", 59_000*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 59_000 * time.Second},
				Defects: []admin.Defect{{Kind: admin.AbsurdTTL, Stuck: true,
					Text: "an expiry that looks like milliseconds given as seconds, so its count does not begin again until then, " +
						"and it denies once it is at the limit"}}}}},
		{name: "a negative count", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a negative count",
			values: []Value{text(storeKey, "-1", time.Minute)}},
		{name: "a word", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a string that is not a whole number",
			values: []Value{text(storeKey, "on", time.Minute)}},
		{name: "a hash", storeKey: storeKey, key: key, now: arrivalNow, wrong: "a hash, not a string",
			values: []Value{hash(storeKey, time.Minute, "a", "1")}},
	}
}
