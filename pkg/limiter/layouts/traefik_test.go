package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func traefikVectors() []vector {
	const storeKey = "rate:ratelimit@file:203.0.113.9"
	key := store.Key{Subject: "203.0.113.9", Name: "traefik/ratelimit@file"}
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: time.Second, Burst: 5}
	slow := store.Limit{Algorithm: store.TokenBucket, Count: 1, Period: 10 * time.Second, Burst: 2}
	const now = store.Instant(1_795_294_334_222_807)
	short := []admin.Defect{{Kind: admin.ShortTTL,
		Text: "expires before its units have come back, so more is let through than the limit allows"}}
	entry := func(limit store.Limit, defects []admin.Defect, d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: limit, Decision: d, Defects: defects}}
	}
	of := func(ttl time.Duration, last, tokens string) []Value {
		return []Value{hash(storeKey, ttl, "last", last, "tokens", tokens)}
	}
	return []vector{
		{name: "half a token, for the rest of which a request waits", storeKey: storeKey, key: key, limit: limit, now: now, certain: true,
			values: of(2*time.Second, "1795294334122807", "0.4"),
			want: entry(limit, short, store.Decision{Allowed: true, Used: 5, Delay: 500 * time.Millisecond,
				ResetAfter: 4500 * time.Millisecond})},
		{name: "too little of a token to wait for the rest", storeKey: storeKey, key: key, limit: limit, now: now, certain: true,
			values: of(2*time.Second, "1795294334122807", "0.3"),
			want:   entry(limit, short, store.Decision{Used: 5, RetryAfter: 600 * time.Millisecond, ResetAfter: 4600 * time.Millisecond})},
		{name: "less than nothing, while a request waits", storeKey: storeKey, key: key, limit: limit, now: now, certain: true,
			values: of(2*time.Second, "1795294334222807", "-0.5"),
			want:   entry(limit, short, store.Decision{Used: 6, RetryAfter: 1500 * time.Millisecond, ResetAfter: 5500 * time.Millisecond})},
		{name: "three of five", storeKey: storeKey, key: key, limit: limit, now: now, certain: true,
			values: of(2*time.Second, "1.795294334222807e+15", "3"),
			want:   entry(limit, nil, store.Decision{Allowed: true, Used: 2, Remaining: 3, ResetAfter: 2 * time.Second})},
		{name: "less than one a second is kept for longer", storeKey: storeKey, key: key, limit: slow, now: now, certain: true,
			values: of(11*time.Second, "1795294334222807", "1"),
			want:   entry(slow, nil, store.Decision{Allowed: true, Used: 1, Remaining: 1, ResetAfter: 10 * time.Second})},
		{name: "the clock of Traefik is ahead", storeKey: storeKey, key: key, limit: limit, now: now, certain: true,
			values: of(2*time.Second, "1795294335222807", "3"),
			want:   entry(limit, nil, store.Decision{Allowed: true, Used: 2, Remaining: 3, ResetAfter: 2 * time.Second})},
		{name: "without the limit", storeKey: storeKey, key: key, now: now, certain: true,
			values: of(2*time.Second, "1795294334122807", "0.4"), want: []admin.Entry{{UsedUnknown: true}}},
		{name: "a time of somebody else", storeKey: storeKey, key: key, now: now,
			values: of(2*time.Second, "1795294334", "0.4"), want: []admin.Entry{{UsedUnknown: true}}},
		{name: "not a number", storeKey: storeKey, key: key, now: now, wrong: "a hash whose last or tokens is not a number",
			values: of(2*time.Second, "1795294334122807", "inf")},
		{name: "one field more", storeKey: storeKey, key: key, wrong: "a hash without the fields last and tokens alone",
			values: []Value{hash(storeKey, 2*time.Second, "last", "1", "tokens", "0.4", "user", "9")}},
	}
}
