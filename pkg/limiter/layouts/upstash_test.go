package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func upstashVectors() []vector {
	const start = "@upstash/ratelimit:203.0.113.9:"
	const current, previous = start + "29921572", start + "29921571" // 11.45 s of it are over
	const until = 48_550 * time.Millisecond
	const dynamic = "@upstash/ratelimit:dynamic:global"
	key := store.Key{Subject: "203.0.113.9", Name: "upstash"}
	fixed := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	sliding := store.Limit{Algorithm: store.SlidingCounter, Count: 10, Period: time.Minute, Burst: 10}
	const bucket = "@upstash/ratelimit:user:7"
	bucketKey := store.Key{Subject: "user:7", Name: "upstash"}
	refills := store.Limit{Algorithm: store.TokenBucket, Count: 2, Period: 10 * time.Second, Burst: 10}
	entry := func(limit store.Limit, d store.Decision, storeKeys ...string) []admin.Entry {
		e := admin.Entry{Limit: limit, Decision: d, ResetTold: true, RetryTold: true}
		for _, storeKey := range storeKeys {
			e.Record.Members = append(e.Record.Members, admin.Member{StoreKey: storeKey, Type: "string"})
		}
		return []admin.Entry{e}
	}
	ofHashes := func(entries []admin.Entry) []admin.Entry {
		for i := range entries[0].Record.Members {
			entries[0].Record.Members[i].Type = "hash"
		}
		return entries
	}
	bucketOf := func(d store.Decision) []admin.Entry {
		entries := ofHashes(entry(refills, d, bucket))
		entries[0].RetryTold, entries[0].ResetTold = false, false
		return entries
	}
	never := func(entries []admin.Entry, text string, stuck bool) []admin.Entry {
		entries[0].Defects = []admin.Defect{{Kind: admin.NeverExpires, Stuck: stuck,
			Text: text + " (cachedFixedWindow of @upstash/ratelimit never sets one)"}}
		return entries
	}
	named := func(entries []admin.Entry, name string) []admin.Entry {
		entries[0].Key = store.Key{Subject: key.Subject, Name: name}
		return entries
	}
	unsaid := entry(store.Limit{Algorithm: store.FixedWindow, Period: time.Minute}, store.Decision{Used: 3, ResetAfter: until}, current)
	unsaid[0].RetryTold = false
	return []vector{
		{name: "fixed", storeKey: current, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(current, "3", 55*time.Second)},
			want:   entry(fixed, store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: until}, current)},
		{name: "fixed, denied, and the window before", storeKey: previous, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(current, "12", 55*time.Second), text(previous, "9", 20*time.Second)},
			want:   entry(fixed, store.Decision{Used: 12, RetryAfter: until, ResetAfter: until}, current, previous)},
		{name: "fixed, the window before alone", storeKey: previous, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(previous, "9", 20*time.Second)},
			want:   entry(fixed, store.Decision{Allowed: true, Remaining: 10}, previous)},
		{name: "the period of the number", storeKey: current, key: key, now: somewhen, certain: true,
			values: []Value{text(current, "3", 55*time.Second)}, want: unsaid},
		{name: "a limit for all", storeKey: current, key: key, now: somewhen, certain: true,
			values: []Value{text(current, "3", 55*time.Second), text(dynamic, "4", -1)},
			want: entry(store.Limit{Algorithm: store.FixedWindow, Count: 4, Period: time.Minute, Burst: 4},
				store.Decision{Allowed: true, Used: 3, Remaining: 1, ResetAfter: until}, current)},
		{name: "cached, without an expiry", storeKey: current, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(current, "3", -1)},
			want: never(entry(fixed, store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: until}, current),
				"no expiry, so the key stays when it counts for nothing any more", false)},
		{name: "cached, long past", storeKey: start + "29621572", key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(start+"29621572", "3", -1)},
			want: never(named(entry(fixed, store.Decision{Allowed: true, Remaining: 10}, start+"29621572"), "upstash@29621572"),
				"no expiry, so the key stays although it counts for nothing", true)},
		{name: "sliding", storeKey: current, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(current, "3", 114_550*time.Millisecond), text(previous, "8", 60*time.Second)},
			want:   entry(sliding, store.Decision{Allowed: true, Used: 9, Remaining: 1, ResetAfter: until}, current, previous)},
		{name: "sliding, the window before weighs too much", storeKey: previous, key: key, limit: tenPerMinute, now: somewhen,
			certain: true,
			values:  []Value{text(current, "4", 114_550*time.Millisecond), text(previous, "8", 60*time.Second)},
			want: entry(sliding, store.Decision{Used: 10, RetryAfter: 3551 * time.Millisecond, ResetAfter: until},
				current, previous)},
		{name: "sliding, this window is full", storeKey: current, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(current, "10", 114_550*time.Millisecond)},
			want:   entry(sliding, store.Decision{Used: 10, RetryAfter: 48_551 * time.Millisecond, ResetAfter: until}, current)},
		{name: "sliding, the window before alone", storeKey: previous, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(previous, "8", 100*time.Second)},
			want:   entry(sliding, store.Decision{Allowed: true, Used: 6, Remaining: 4, ResetAfter: until}, previous)},
		{name: "several regions", storeKey: current, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{hash(current, 114_550*time.Millisecond, "a", "1", "b", "2"), hash(previous, 100*time.Second, "c", "8")},
			want: ofHashes(entry(sliding, store.Decision{Used: 10, RetryAfter: 3550 * time.Millisecond, ResetAfter: until},
				current, previous))},
		{name: "a bucket", storeKey: bucket, key: bucketKey, limit: refills, now: somewhen, certain: true,
			values: []Value{hash(bucket, 40*time.Second, "refilledAt", "1795294320000", "tokens", "4")},
			want:   bucketOf(store.Decision{Allowed: true, Used: 4, Remaining: 6, ResetAfter: 8550 * time.Millisecond})},
		{name: "a bucket below 0", storeKey: bucket, key: bucketKey, limit: refills, now: somewhen, certain: true,
			values: []Value{hash(bucket, 60*time.Second, "refilledAt", "1795294330000", "tokens", "-2")},
			want: bucketOf(store.Decision{Used: 12, RetryAfter: 18_550 * time.Millisecond,
				ResetAfter: 8550 * time.Millisecond})},
		{name: "a bucket with an own prefix and a number at its end", storeKey: "myapp:user:29921572", limit: refills, now: somewhen,
			key:    store.Key{Subject: "myapp:user", Name: "upstash"},
			values: []Value{hash("myapp:user:29921572", 60*time.Second, "refilledAt", "1795294330000", "tokens", "4")},
			want: []admin.Entry{{Limit: refills, Key: store.Key{Subject: "myapp:user:29921572", Name: "upstash"},
				Record:   admin.Record{Members: []admin.Member{{StoreKey: "myapp:user:29921572", Type: "hash"}}},
				Decision: store.Decision{Allowed: true, Used: 6, Remaining: 4, ResetAfter: 8550 * time.Millisecond}}}},
		{name: "a bucket without the limit", storeKey: bucket, key: bucketKey, now: somewhen, certain: true,
			values: []Value{hash(bucket, 60*time.Second, "refilledAt", "1795294330000", "tokens", "4")},
			want: []admin.Entry{{UsedUnknown: true,
				Record: admin.Record{Members: []admin.Member{{StoreKey: bucket, Type: "hash"}}}}}},
		{name: "a string in place of a bucket", storeKey: "@upstash/ratelimit:a", now: somewhen,
			key: store.Key{Subject: "a", Name: "upstash"}, wrong: "a string, not a hash",
			values: []Value{text("@upstash/ratelimit:a", "3", time.Minute)}},
		{name: "a limit for all that is a word", storeKey: current, key: key, now: somewhen,
			wrong:  "a limit of all, under a key that ends in :dynamic:global, that is not a count",
			values: []Value{text(current, "3", 55*time.Second), text(dynamic, "x", -1)}},
	}
}
