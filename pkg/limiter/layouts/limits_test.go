package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func limitsVectors() []vector {
	const fixed = "LIMITS:LIMITER/1.2.3.4/index/10/1/minute"
	const current, previous = "LIMITS:{LIMITER/1.2.3.4/index/10/1/minute}", "LIMITS:{LIMITER/1.2.3.4/index/10/1/minute}/-1"
	const now = store.Instant(1_795_294_536_000_000)
	key := store.Key{Subject: "1.2.3.4/index", Name: "limits/10/1/minute"}
	log := store.Limit{Algorithm: store.SlidingLog, Count: 10, Period: time.Minute, Burst: 10}
	three := store.Limit{Algorithm: store.SlidingLog, Count: 3, Period: time.Minute, Burst: 3}
	weighed := store.Limit{Algorithm: store.SlidingCounter, Count: 10, Period: time.Minute, Burst: 10}
	slides := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: weighed, ResetTold: true, Decision: d}}
	}
	short := "LIMITS:LIMITER/a/3/1/minute"
	shortKey := store.Key{Subject: "a", Name: "limits/3/1/minute"}
	return []vector{
		{name: "fixed window", storeKey: fixed, key: key, now: now, certain: true,
			values: []Value{text(fixed, "1", 55*time.Second)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 1, Remaining: 9, ResetAfter: 55 * time.Second}}}},
		{name: "version 2, which has no prefix", storeKey: "LIMITER/1.2.3.4/index/10/1/minute", key: key, now: now, certain: true,
			values: []Value{text("LIMITER/1.2.3.4/index/10/1/minute", "1", 55*time.Second)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 1, Remaining: 9, ResetAfter: 55 * time.Second}}}},
		{name: "another namespace without a prefix", storeKey: "mine/1.2.3.4/index/10/1/minute", key: key, now: now,
			values: []Value{text("mine/1.2.3.4/index/10/1/minute", "1", 55*time.Second)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 1, Remaining: 9, ResetAfter: 55 * time.Second}}}},
		{name: "fixed window, denied, and another limit said", storeKey: fixed, key: key, now: now, certain: true,
			limit:  store.Limit{Count: 7, Period: time.Hour},
			values: []Value{text(fixed, "14", 55*time.Second)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 14, RetryAfter: 55 * time.Second, ResetAfter: 55 * time.Second}}}},
		{name: "fixed window without an expiry", storeKey: fixed, key: key, now: now, certain: true,
			values: []Value{text(fixed, "14", -1)},
			want: []admin.Entry{{Limit: windowTen, Decision: store.Decision{Used: 14},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so it denies for ever (alisaifee/limits#15)"}}}}},
		{name: "a year, and a slash in the identifier", storeKey: "LIMITS:LIMITER/a/b//5/2/year", now: now, certain: true,
			key:    store.Key{Subject: "a/b/", Name: "limits/5/2/year"},
			values: []Value{text("LIMITS:LIMITER/a/b//5/2/year", "1", time.Hour)},
			want: []admin.Entry{{RetryTold: true, ResetTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, FromFirst: true, Count: 5, Period: 720 * day, Burst: 5},
				Decision: store.Decision{Allowed: true, Used: 1, Remaining: 4, ResetAfter: time.Hour}}}},
		{name: "moving window", storeKey: fixed, key: key, now: now, certain: true,
			values: []Value{list(fixed, 59*time.Second, "1795294535.1287119", "1795294535.1287119")},
			want: []admin.Entry{{Limit: log,
				Decision: store.Decision{Allowed: true, Used: 2, Remaining: 8, ResetAfter: 59_128_712 * time.Microsecond}}}},
		{name: "moving window, full", storeKey: short, key: shortKey, now: now, certain: true,
			values: []Value{list(short, 59*time.Second, "1795294530", "1795294520", "1795294500", "1795294400")},
			want: []admin.Entry{{Limit: three, Decision: store.Decision{Used: 3,
				RetryAfter: 24_000_001 * time.Microsecond, ResetAfter: 24 * time.Second}}}},
		{name: "moving window, the oldest is out of it", storeKey: short, key: shortKey, now: now, certain: true,
			values: []Value{list(short, 59*time.Second, "1795294530", "1795294520", "1795294475")},
			want: []admin.Entry{{Limit: three, Decision: store.Decision{Allowed: true, Used: 2, Remaining: 1,
				ResetAfter: 44 * time.Second}}}},
		{name: "moving window of words", storeKey: fixed, key: key, now: now, wrong: "a list with a member that is not a time",
			values: []Value{list(fixed, 59*time.Second, "now")}},
		{name: "sliding window", storeKey: current, key: key, now: now, certain: true,
			values: []Value{text(current, "4", 90*time.Second), text(previous, "9", 30*time.Second)},
			want:   slides(store.Decision{Allowed: true, Used: 8, Remaining: 2, ResetAfter: 3_333_333 * time.Microsecond})},
		{name: "sliding window, the previous one weighs too much", storeKey: previous, key: key, now: now, certain: true,
			values: []Value{text(current, "6", 90*time.Second), text(previous, "9", 30*time.Second)},
			want:   slides(store.Decision{Used: 10, RetryAfter: 10 * time.Second, ResetAfter: 3_333_333 * time.Microsecond})},
		{name: "sliding window, this one is full", storeKey: current, key: key, now: now, certain: true,
			values: []Value{text(current, "10", 90*time.Second)},
			want:   slides(store.Decision{Used: 10, RetryAfter: 36 * time.Second, ResetAfter: 30 * time.Second})},
		{name: "sliding window, this one is the previous one by now", storeKey: current, key: key, now: now, certain: true,
			values: []Value{text(current, "10", 30*time.Second), text(previous, "7", time.Second)},
			want:   slides(store.Decision{Allowed: true, Used: 5, Remaining: 5})},
		{name: "a hash", storeKey: fixed, key: key, now: now, wrong: "a hash, not a string or list",
			values: []Value{hash(fixed, time.Minute, "a", "b")}},
	}
}
