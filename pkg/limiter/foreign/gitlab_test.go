package foreign

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func gitlabVectors() []vector {
	const storeKey = "application_rate_limiter:users_get_by_id:user:42:2992157" // ten minutes
	const until = 468_550 * time.Millisecond
	key := limiter.Key{Subject: "user:42", Name: "gitlab/users_get_by_id"}
	ten := limiter.Limit{Algorithm: limiter.FixedWindow, Period: 10 * time.Minute}
	said := limiter.Limit{Count: 300, Period: 10 * time.Minute}
	all := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 300, Period: 10 * time.Minute, Burst: 300}
	const labkit = "labkit:rl:{api:throttle_authenticated:u:42}"
	labkitKey := limiter.Key{Subject: "u:42", Name: "gitlab/api:throttle_authenticated"}
	return []vector{
		{name: "a counter", storeKey: storeKey, key: key, now: somewhen, certain: true,
			values: []Value{text(storeKey, "17", 469*time.Second)},
			want:   []limiter.Entry{{Limit: ten, ResetTold: true, Decision: limiter.Decision{Used: 17, ResetAfter: until}}}},
		{name: "a set", storeKey: storeKey, key: key, limit: said, now: somewhen, certain: true,
			values: []Value{{StoreKey: storeKey, Type: SetValue, Length: 300, TTL: 469 * time.Second}},
			want: []limiter.Entry{{Limit: all, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{Used: 300, RetryAfter: until, ResetAfter: until}}}},
		{name: "without a scope", storeKey: "application_rate_limiter:raw_blob:2992157", now: somewhen, certain: true,
			key:    limiter.Key{Subject: "raw_blob", Name: "gitlab/raw_blob"},
			values: []Value{text("application_rate_limiter:raw_blob:2992157", "17", 469*time.Second)},
			want:   []limiter.Entry{{Limit: ten, ResetTold: true, Decision: limiter.Decision{Used: 17, ResetAfter: until}}}},
		{name: "without an expiry", storeKey: storeKey, key: key, now: somewhen, values: []Value{text(storeKey, "17", -1)},
			want: []limiter.Entry{{Limit: ten, ResetTold: true, Decision: limiter.Decision{Used: 17, ResetAfter: until},
				Defects: []limiter.Defect{{Kind: limiter.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "a list", storeKey: storeKey, key: key, now: somewhen, wrong: "a list, not a string or set",
			values: []Value{list(storeKey, time.Minute, "1")}},
		{name: "labkit", storeKey: labkit, key: labkitKey, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(labkit, "4", 20*time.Second)},
			want: []limiter.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{Allowed: true, Used: 4, Remaining: 6, ResetAfter: 20 * time.Second}}}},
		{name: "labkit, banned", storeKey: labkit + ":ban", key: labkitKey, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(labkit, "11", 20*time.Second), text(labkit+":ban", "1", time.Hour)},
			want: []limiter.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{Used: 11, RetryAfter: time.Hour, ResetAfter: time.Hour}}}},
	}
}
