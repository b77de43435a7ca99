package foreign

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func traefikVectors() []vector {
	const storeKey = "rate:ratelimit@file:203.0.113.9"
	key := limiter.Key{Subject: "203.0.113.9", Name: "traefik/ratelimit@file"}
	limit := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 1, Period: time.Second, Burst: 5}
	return []vector{
		{name: "half a token", storeKey: storeKey, key: key, limit: limit, now: 1_795_294_334_222_807, certain: true,
			values: []Value{hash(storeKey, 2*time.Second, "last", "1795294334122807", "tokens", "0.4")},
			want: []limiter.Entry{{Limit: limit, Decision: limiter.Decision{Used: 5, RetryAfter: 500 * time.Millisecond,
				ResetAfter: 4500 * time.Millisecond}}}},
		{name: "one field more", storeKey: storeKey, key: key, wrong: "a hash without the fields last and tokens alone",
			values: []Value{hash(storeKey, 2*time.Second, "last", "1", "tokens", "0.4", "user", "9")}},
	}
}
