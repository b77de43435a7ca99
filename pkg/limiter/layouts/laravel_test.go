package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func laravelVectors() []vector {
	const name = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
	const counter = "laravel_database_laravel_cache_:" + name
	const timer = counter + ":timer"
	const throttle = "laravel_database_" + name
	key := store.Key{Subject: name, Name: "laravel"}
	hashed := store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Count: 10, Period: time.Minute, Burst: 10}
	told := func(limit store.Limit, d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: limit, RetryTold: limit.Count > 0, ResetTold: true, Decision: d}}
	}
	never := func(text string, stuck bool) []admin.Defect {
		return []admin.Defect{{Kind: admin.NeverExpires, Text: text, Stuck: stuck}}
	}
	return []vector{
		{name: "three attempts", storeKey: counter, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(counter, "3", 40_100*time.Millisecond), text(timer, "1795294371", 40_100*time.Millisecond)},
			want:   told(windowTen, store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 40_100 * time.Millisecond})},
		{name: "all attempts", storeKey: timer, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(counter, "10", 41*time.Second), text(timer, "1795294371", 40*time.Second)},
			want:   told(windowTen, store.Decision{Used: 10, RetryAfter: 40 * time.Second, ResetAfter: 40 * time.Second})},
		{name: "a counter at the limit whose timer is gone", storeKey: counter, key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text(counter, "10", 5*time.Second)},
			want:   told(windowTen, store.Decision{Allowed: true, Remaining: 10})},
		{name: "a counter below the limit whose timer is gone", storeKey: counter, key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text(counter, "9", 5*time.Second)},
			want:   told(windowTen, store.Decision{Allowed: true, Used: 9, Remaining: 1, ResetAfter: 5 * time.Second})},
		{name: "a timer alone", storeKey: timer, key: key, now: somewhen, values: []Value{text(timer, "1795294371", time.Minute)}},
		{name: "a timer that stays", storeKey: counter, key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text(counter, "10", 5*time.Second), text(timer, "1795294371", -1)},
			want: []admin.Entry{{Limit: windowTen, Decision: store.Decision{Used: 10},
				Defects: never("no expiry, so it denies for ever", true)}}},
		{name: "MD5, and no mark of a cache", storeKey: "d41d8cd98f00b204e9800998ecf8427e",
			key: store.Key{Subject: "d41d8cd98f00b204e9800998ecf8427e", Name: "laravel"}, now: somewhen,
			values: []Value{text("d41d8cd98f00b204e9800998ecf8427e", "3", time.Minute)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: time.Minute}}}},
		{name: "a name that is not hashed", storeKey: "app_cache_:login|203.0.113.9",
			key: store.Key{Subject: "app_cache_:login|203.0.113.9", Name: "laravel"}, now: somewhen,
			values: []Value{text("app_cache_:login|203.0.113.9", "3", time.Minute)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: time.Minute}}}},
		{name: "Redis::throttle", storeKey: throttle, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{hash(throttle, 110*time.Second, "start", "1795294321", "end", "1795294381", "count", "10")},
			want: told(hashed, store.Decision{Used: 10, RetryAfter: 49_550 * time.Millisecond,
				ResetAfter: 49_550 * time.Millisecond})},
		{name: "Redis::throttle, with braces and without the count", storeKey: "laravel_database_{" + name + "}", key: key,
			now: somewhen, certain: true,
			values: []Value{hash("laravel_database_{"+name+"}", 110*time.Second, "start", "1795294321", "end", "1795294381", "count", "4")},
			want: told(store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Period: time.Minute},
				store.Decision{Used: 4, ResetAfter: 49_550 * time.Millisecond})},
		{name: "Redis::throttle, over", storeKey: throttle, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{hash(throttle, 30*time.Second, "start", "1795294241", "end", "1795294301", "count", "10")},
			want:   told(hashed, store.Decision{Allowed: true, Remaining: 10})},
		{name: "another hash", storeKey: throttle, key: key, now: somewhen, wrong: "a hash without the numbers start, end and count alone",
			values: []Value{hash(throttle, time.Minute, "start", "1", "end", "2")}},
		{name: "another hash of numbers", storeKey: throttle, key: key, now: somewhen,
			wrong:  "a hash whose start and end are not times of a window",
			values: []Value{hash(throttle, time.Minute, "start", "9", "end", "2", "count", "1")}},
		{name: "a set", storeKey: counter, key: key, now: somewhen, wrong: "a set, not a string or hash",
			values: []Value{{StoreKey: counter, Type: SetValue, Length: 3, TTL: time.Minute}}},
	}
}
