package layouts

import (
	"math"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The greatest bursts, of which one unit comes back in a year: no time to wait is less than it is.
func TestLimitsThatTakeAges(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	ages := store.Limit{Count: 1, Period: store.MaxPeriod, Burst: store.MaxCount}
	now := store.Instant(1_795_294_335_000_000)
	for _, test := range []struct {
		layout        Layout
		storeKey      string
		values        []Value
		resets, retry time.Duration // 0 is not looked at
	}{
		{layout: named("spring-cloud-gateway"), storeKey: "request_rate_limiter.{a}.tokens", values: []Value{
			text("request_rate_limiter.{a}.tokens", "0", time.Hour), text("request_rate_limiter.{a}.timestamp", "1795294335", time.Hour)},
			resets: longest, retry: store.MaxPeriod},
		{layout: named("spring-cloud-gateway"), storeKey: "request_rate_limiter.{a}.tokens", values: []Value{
			text("request_rate_limiter.{a}.tokens", "0", time.Hour), text("request_rate_limiter.{a}.timestamp", "4294967295", time.Hour)},
			resets: longest, retry: store.MaxPeriod + (4294967295-1795294335)*time.Second},
		{layout: named("upstash"), storeKey: "@upstash/ratelimit:a", values: []Value{
			hash("@upstash/ratelimit:a", time.Hour, "refilledAt", "1795294335000", "tokens", "0")},
			resets: store.MaxPeriod, retry: store.MaxPeriod},
		{layout: named("upstash"), storeKey: "@upstash/ratelimit:a", values: []Value{
			hash("@upstash/ratelimit:a", time.Hour, "refilledAt", "1795294335000", "tokens", "-1000000000")},
			resets: store.MaxPeriod, retry: longest},
		{layout: named("redis_rate"), storeKey: "rate:a", values: []Value{text("rate:a", "312261535.5", time.Hour)}},
		{layout: named("throttled"), storeKey: "a", values: []Value{text("a", "1795294338950000000", time.Hour)}},
		{layout: named("traefik"), storeKey: "rate:a@file:b", values: []Value{
			hash("rate:a@file:b", time.Hour, "last", "1795294335000000", "tokens", "0")}, resets: longest},
		{layout: named("token-hash"), storeKey: "a", values: []Value{hash("a", time.Hour, "tokens", "0", "last_refill", "1795294335")},
			resets: longest, retry: store.MaxPeriod},
	} {
		name := test.layout.Info().Name
		v := vector{name: "ages", storeKey: test.storeKey, values: test.values, now: now, limit: ages}
		found := v.found(test.layout)
		reading, err := decode(test.layout, found)
		if err != nil || len(reading.Entries) != 1 {
			t.Errorf("%s: %+v, %v", name, reading, err)
			continue
		}
		checkReading(t, test.layout, &reading.Entries[0], test.layout.Together(test.storeKey, ages, now))
		e := &reading.Entries[0]
		if test.resets > 0 && e.ResetAfter != test.resets || test.retry > 0 && e.RetryAfter != test.retry {
			t.Errorf("%s: resets in %d, want %d; retry after %d, want %d", name, e.ResetAfter, test.resets, e.RetryAfter, test.retry)
		}
	}
}
