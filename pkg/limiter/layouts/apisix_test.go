package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const apisixNow store.Instant = 1_795_294_335_000_000 // a quarter of the minute is over

// apisixVectors are built from the scripts and the rules of limit-count.
func apisixVectors() []vector {
	const (
		fixed    = "plugin-limit-count:v1:/apisix/routes/1:1626:2001:db8::1"
		left     = "plugin-limit-countgold:203.0.113.9"
		current  = "plugin-limit-count:gold:alice.29921572.counter"
		previous = "plugin-limit-count:gold:alice.29921571.counter"
		past     = "plugin-limit-count:gold:alice.29921570.counter"
	)
	fixedKey := store.Key{Subject: "2001:db8::1", Name: "apisix/limit-count/routes/1"}
	leftKey := store.Key{Subject: "203.0.113.9", Name: "apisix/limit-count/gold"}
	alice := store.Key{Subject: "alice", Name: "apisix/limit-count/gold"}
	said := store.Limit{Count: 10, Period: time.Minute}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10, FromFirst: true}
	sliding := store.Limit{Algorithm: store.SlidingCounter, Count: 10, Period: time.Minute, Burst: 10}
	const ends = 20 * time.Second
	slidingEntry := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: sliding, ResetTold: true, RetryTold: true, Decision: d}}
	}
	two := func(now, before string) []Value {
		return []Value{text(current, now, 100*time.Second), text(previous, before, 40*time.Second)}
	}
	return []vector{
		{name: "used", storeKey: fixed, key: fixedKey, now: apisixNow, limit: said, certain: true, values: []Value{text(fixed, "3", ends)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: ends}}}},
		{name: "denied ones count", storeKey: fixed, key: fixedKey, now: apisixNow, limit: said, certain: true,
			values: []Value{text(fixed, "13", ends)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 13, ResetAfter: ends, RetryAfter: ends}}}},
		{name: "without an expiry APISIX begins anew", storeKey: fixed, key: fixedKey, now: apisixNow, limit: said, certain: true,
			values: []Value{text(fixed, "13", -1)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true, Decision: store.Decision{Allowed: true, Remaining: 10},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so the key stays although it counts for nothing"}}}}},
		{name: "what remains, as before 2026", storeKey: left, key: leftKey, now: apisixNow, limit: said, certain: true,
			values: []Value{text(left, "7", ends)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: ends}}}},
		{name: "less than nothing remains, as before 2026", storeKey: left, key: leftKey, now: apisixNow, limit: said, certain: true,
			values: []Value{text(left, "-2", ends)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 12, ResetAfter: ends, RetryAfter: ends}}}},
		{name: "what remains, without the limit", storeKey: left, key: leftKey, now: apisixNow, certain: true,
			values: []Value{text(left, "7", ends)},
			want:   []admin.Entry{{UsedUnknown: true, ResetTold: true, Decision: store.Decision{ResetAfter: ends}}}},
		{name: "two windows that slide", storeKey: current, key: alice, now: apisixNow, limit: said, certain: true, values: two("1", "6"),
			want: slidingEntry(store.Decision{Allowed: true, Used: 6, Remaining: 4, ResetAfter: 105 * time.Second})},
		{name: "less than one is left, by the window before", storeKey: previous, key: alice, now: apisixNow, limit: said, certain: true,
			values: two("5", "6"), want: slidingEntry(store.Decision{Allowed: true, Used: 10, ResetAfter: 105 * time.Second})},
		{name: "denied by the window before, of which the limit counts at most", storeKey: current, key: alice, now: apisixNow, limit: said,
			certain: true, values: two("5", "12"),
			want: slidingEntry(store.Decision{Used: 13, RetryAfter: 15*time.Second + time.Microsecond, ResetAfter: 105 * time.Second})},
		{name: "denied by this window", storeKey: current, key: alice, now: apisixNow, limit: said, certain: true, values: two("10", "0"),
			want: slidingEntry(store.Decision{Used: 10, RetryAfter: 45*time.Second + time.Microsecond, ResetAfter: 105 * time.Second})},
		{name: "the period by the number", storeKey: current, key: alice, now: apisixNow, certain: true, values: two("1", "6"),
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.SlidingCounter, Period: time.Minute}, ResetTold: true,
				Decision: store.Decision{Used: 6, ResetAfter: 105 * time.Second}}}},
		{name: "long past", storeKey: past, key: alice, now: apisixNow, limit: said, certain: true,
			values: []Value{text(past, "9", -1)},
			want: []admin.Entry{{Key: store.Key{Subject: "alice", Name: alice.Name + "@29921570"}, Limit: sliding,
				ResetTold: true, RetryTold: true, Decision: store.Decision{Allowed: true, Remaining: 10},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so the key stays although it counts for nothing"}}}}},
		{name: "a word", storeKey: fixed, key: fixedKey, wrong: "a string that is not a whole number",
			values: []Value{text(fixed, "x", ends)}},
	}
}

// apisixOtherVectors are built from the rules of limit-req and limit-conn.
func apisixOtherVectors() []vector {
	const (
		requests     = "limit_req:203.0.113.9route1"
		excess, last = "limit_req:aliceroute1excess", "limit_req:aliceroute1last"
		connections  = "limit_conn:203.0.113.9route1"
	)
	key := store.Key{Subject: "203.0.113.9route1", Name: "apisix/limit-req"}
	alice := store.Key{Subject: "aliceroute1", Name: "apisix/limit-req"}
	connKey := store.Key{Subject: "203.0.113.9route1", Name: "apisix/limit-conn"}
	limit := store.Limit{Algorithm: store.LeakyBucket, Count: 2, Period: time.Second, Burst: 4}
	slow := store.Limit{Algorithm: store.LeakyBucket, Count: 6, Period: time.Minute, Burst: 1}
	live := func(ttl time.Duration, scores ...float64) Value {
		value := Value{StoreKey: connections, Type: SortedSetValue, Length: int64(len(scores)), TTL: ttl}
		for i, score := range scores {
			value.Members = append(value.Members, Member{Name: string("abc"[i]), Score: score})
		}
		return value
	}
	return []vector{
		{name: "half a second after three", storeKey: requests, key: key, now: apisixNow, limit: limit, certain: true,
			values: []Value{hash(requests, 3*time.Second, "excess", "2000", "last", "1795294334500")},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Used: 2, Remaining: 2,
				ResetAfter: time.Second}}}},
		{name: "as much as the burst is above the rate", storeKey: requests, key: key, now: apisixNow, limit: limit, certain: true,
			values: []Value{hash(requests, 3*time.Second, "excess", "3000", "last", "1795294334900")},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Used: 4, RetryAfter: 400 * time.Millisecond,
				ResetAfter: 1900 * time.Millisecond}}}},
		{name: "forgotten before the request has passed", storeKey: requests, key: key, now: apisixNow, limit: slow, certain: true,
			values: []Value{hash(requests, time.Second, "excess", "0", "last", "1795294335000")},
			want: []admin.Entry{{Limit: slow, Decision: store.Decision{Used: 1, RetryAfter: time.Second, ResetAfter: time.Second},
				Defects: []admin.Defect{{Kind: admin.ShortTTL, Text: "expires before its units have come back, " +
					"so more is let through than the limit allows (apache/apisix#12605)"}}}}},
		{name: "without the limit", storeKey: requests, key: key, now: apisixNow, certain: true,
			values: []Value{hash(requests, 3*time.Second, "excess", "3000", "last", "1795294334900")},
			want:   []admin.Entry{{UsedUnknown: true}}},
		{name: "two strings, as in earlier releases", storeKey: last, key: alice, now: apisixNow, limit: limit, certain: true,
			values: []Value{text(excess, "2000", -1), text(last, "1795294334500", -1)},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Allowed: true, Used: 2, Remaining: 2, ResetAfter: time.Second},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "a field more", storeKey: requests, key: key, wrong: "a hash without the fields excess and last alone",
			values: []Value{hash(requests, time.Second, "excess", "0", "last", "1", "x", "2")}},
		{name: "no number", storeKey: requests, key: key, wrong: "an impossible excess or time",
			values: []Value{hash(requests, time.Second, "excess", "NaN", "last", "1")}},
		{name: "two of three connections", storeKey: connections, key: connKey, now: apisixNow, certain: true,
			limit:  store.Limit{Count: 3, Period: time.Second},
			values: []Value{live(time.Minute, 1795294335, 1795294336, 1795294390)},
			want: []admin.Entry{{Limit: store.Limit{Count: 3, Burst: 3}, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 2, Remaining: 1}}}},
		{name: "no connection is free", storeKey: connections, key: connKey, now: apisixNow, certain: true,
			limit:  store.Limit{Count: 2, Period: time.Second},
			values: []Value{live(time.Minute, 1795294336, 1795294390)},
			want:   []admin.Entry{{Limit: store.Limit{Count: 2, Burst: 2}, Decision: store.Decision{Used: 2}}}},
		{name: "scores of another kind", storeKey: connections, key: connKey, wrong: "a sorted set whose scores are not times in seconds",
			values: []Value{live(time.Minute, 1795294336.5)}},
	}
}

func TestApisixKeys(t *testing.T) {
	for _, storeKey := range []string{
		"plugin-limit-count", "plugin-limit-count:a", "plugin-limit-count:v1:", "plugin-limit-count:a.0x1.counter",
		"plugin-limit-count:a.01.counter", "limit_req:", "limit_conn:", "plugin-limit-count:v1:a", "plugin-limit-count:v1:a:",
	} {
		if key, ok := (apisix{}).Match(storeKey, true); ok {
			t.Errorf("%s matches %+v", storeKey, key)
		}
	}
}

func TestApisixSetRemaining(t *testing.T) {
	v := apisixVectors()
	checkSet(t, apisix{}, v[1].found(apisix{}, store.Key{}), 6, Write{StoreKey: v[1].storeKey, Text: "4"})
	checkSet(t, apisix{}, v[4].found(apisix{}, store.Key{}), 6, Write{StoreKey: v[4].storeKey, Text: "6"})
	checkSet(t, apisix{}, v[8].found(apisix{}, store.Key{}), 6, Write{StoreKey: v[8].values[0].StoreKey, Text: "4"},
		Write{StoreKey: v[8].values[1].StoreKey, Text: "0"})
	if _, err := (apisix{}).SetRemaining(v[11].found(apisix{}, store.Key{}), 6); err == nil {
		t.Error("it sets what remains of a window past")
	}
	v = apisixOtherVectors()
	checkSet(t, apisix{}, v[1].found(apisix{}, store.Key{}), 3, Write{StoreKey: v[1].storeKey, Field: "excess", Text: "0"},
		Write{StoreKey: v[1].storeKey, Field: "last", Text: "1795294335000"})
	checkSet(t, apisix{}, v[4].found(apisix{}, store.Key{}), 0, Write{StoreKey: v[4].values[0].StoreKey, Text: "3000"},
		Write{StoreKey: v[4].values[1].StoreKey, Text: "1795294335000"})
	if _, err := (apisix{}).SetRemaining(v[1].found(apisix{}, store.Key{}), 4); err == nil {
		t.Error("it writes a state that is none after a request")
	}
	if _, err := (apisix{}).SetRemaining(v[7].found(apisix{}, store.Key{}), 1); err == nil {
		t.Error("it sets what remains of connections")
	}
}
