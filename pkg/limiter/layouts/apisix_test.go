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
		fixed = "plugin-limit-count:v1:/apisix/routes/1:1626:2001:db8::1"
		left  = "plugin-limit-countgold:203.0.113.9"
	)
	fixedKey := store.Key{Subject: "2001:db8::1", Name: "apisix/limit-count/routes/1"}
	leftKey := store.Key{Subject: "203.0.113.9", Name: "apisix/limit-count/gold"}
	said := store.Limit{Count: 10, Period: time.Minute}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10, FromFirst: true}
	const ends = 20 * time.Second
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
		{name: "a word", storeKey: fixed, key: fixedKey, wrong: "a string that is not a whole number",
			values: []Value{text(fixed, "x", ends)}},
	}
}

func TestApisixKeys(t *testing.T) {
	for _, storeKey := range []string{
		"plugin-limit-count", "plugin-limit-count:a", "plugin-limit-count:v1:", "plugin-limit-count:gold:alice.29921572.counter",
		"limit_req:a", "limit_conn:a", "plugin-limit-count:v1:a", "plugin-limit-count:v1:a:",
	} {
		if key, ok := (apisix{}).Match(storeKey, true); ok {
			t.Errorf("%s matches %+v", storeKey, key)
		}
	}
}
