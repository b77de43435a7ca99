package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func gitlabVectors() []vector {
	const storeKey = "application_rate_limiter:users_get_by_id:user:42:2992157" // ten minutes
	const until = 468_550 * time.Millisecond
	key := store.Key{Subject: "user:42", Name: "gitlab/users_get_by_id"}
	ten := store.Limit{Algorithm: store.FixedWindow, Period: 10 * time.Minute}
	said := store.Limit{Count: 300, Period: 10 * time.Minute}
	all := store.Limit{Algorithm: store.FixedWindow, Count: 300, Period: 10 * time.Minute, Burst: 300}
	const labkit = "labkit:rl:{api:throttle_authenticated:u:42}"
	labkitKey := store.Key{Subject: "u:42", Name: "gitlab/api:throttle_authenticated"}
	return []vector{
		{name: "a counter", storeKey: storeKey, key: key, now: somewhen, certain: true,
			values: []Value{text(storeKey, "17", 469*time.Second)},
			want:   []admin.Entry{{Limit: ten, ResetTold: true, Decision: store.Decision{Used: 17, ResetAfter: until}}}},
		{name: "a set", storeKey: storeKey, key: key, limit: said, now: somewhen, certain: true,
			values: []Value{{StoreKey: storeKey, Type: SetValue, Length: 300, TTL: 469 * time.Second}},
			want: []admin.Entry{{Limit: all, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 300, RetryAfter: until, ResetAfter: until}}}},
		{name: "without a scope", storeKey: "application_rate_limiter:raw_blob:2992157", now: somewhen, certain: true,
			key:    store.Key{Subject: "raw_blob", Name: "gitlab/raw_blob"},
			values: []Value{text("application_rate_limiter:raw_blob:2992157", "17", 469*time.Second)},
			want:   []admin.Entry{{Limit: ten, ResetTold: true, Decision: store.Decision{Used: 17, ResetAfter: until}}}},
		{name: "without an expiry", storeKey: storeKey, key: key, now: somewhen, values: []Value{text(storeKey, "17", -1)},
			want: []admin.Entry{{Limit: ten, ResetTold: true, Decision: store.Decision{Used: 17, ResetAfter: until},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "a list", storeKey: storeKey, key: key, now: somewhen, wrong: "a list, not a string or set",
			values: []Value{list(storeKey, time.Minute, "1")}},
		{name: "labkit", storeKey: labkit, key: labkitKey, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(labkit, "4", 20*time.Second)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 4, Remaining: 6, ResetAfter: 20 * time.Second}}}},
		{name: "labkit, banned", storeKey: labkit + ":ban", key: labkitKey, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(labkit, "11", 20*time.Second), text(labkit+":ban", "1", time.Hour)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 11, RetryAfter: time.Hour, ResetAfter: time.Hour}}}},
	}
}
