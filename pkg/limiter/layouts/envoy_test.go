package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// envoyVectors are built from the form of the keys and the rules of the service.
func envoyVectors() []vector {
	const (
		minute  = "edge_remote_address_203.0.113.9_1795294320"
		hour    = "edge_user_alice_smith_1795291200"
		generic = "edge_generic_key_login_1795294331"
		now     = store.Instant(1_795_294_331_450_000)
	)
	key := store.Key{Subject: "edge_remote_address_203.0.113.9", Name: "envoy"}
	entryKey := func(key store.Key, name string) store.Key { return store.Key{Subject: key.Subject, Name: name} }
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	perHour := store.Key{Subject: "edge_user_alice_smith", Name: "envoy"}
	perSecond := store.Key{Subject: "edge_generic_key_login", Name: "envoy"}
	const left = 48_550 * time.Millisecond
	return []vector{
		{name: "three of a minute", storeKey: minute, key: key, now: now, limit: limit, certain: true,
			values: []Value{text(minute, "3", 200*time.Second)},
			want: []admin.Entry{{Key: entryKey(key, "envoy/minute"), Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: left}}}},
		{name: "more than the limit", storeKey: minute, key: key, now: now, limit: limit, certain: true,
			values: []Value{text(minute, "12", 200*time.Second)},
			want: []admin.Entry{{Key: entryKey(key, "envoy/minute"), Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 12, RetryAfter: left, ResetAfter: left}}}},
		{name: "a minute or a second", storeKey: minute, key: key, now: now, certain: true,
			values: []Value{text(minute, "3", 200*time.Second)},
			want: []admin.Entry{{Key: entryKey(key, "envoy/second-or-minute"), Limit: store.Limit{Algorithm: store.FixedWindow},
				Decision: store.Decision{Used: 3}}}},
		{name: "kept too long for a second", storeKey: minute, key: key, now: now, certain: true,
			values: []Value{text(minute, "3", 340*time.Second)},
			want: []admin.Entry{{Key: entryKey(key, "envoy/minute"), ResetTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Period: time.Minute},
				Decision: store.Decision{Used: 3, ResetAfter: left}}}},
		{name: "a minute past", storeKey: minute, key: key, now: now + 60e6, limit: limit, certain: true,
			values: []Value{text(minute, "3", 140*time.Second)},
			want: []admin.Entry{{Key: entryKey(key, "envoy/minute@1795294320"), Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "an hour by its expiry", storeKey: hour, key: perHour, now: now,
			values: []Value{text(hour, "3", time.Hour)},
			want: []admin.Entry{{Key: entryKey(perHour, "envoy/hour"), ResetTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Period: time.Hour},
				Decision: store.Decision{Used: 3, ResetAfter: 468_550 * time.Millisecond}}}},
		{name: "a second", storeKey: generic, key: perSecond, now: now, certain: true,
			values: []Value{text(generic, "1", 100*time.Second)},
			want: []admin.Entry{{Key: entryKey(perSecond, "envoy/second"), ResetTold: true,
				Limit:    store.Limit{Algorithm: store.FixedWindow, Period: time.Second},
				Decision: store.Decision{Used: 1, ResetAfter: 550 * time.Millisecond}}}},
		{name: "of no unit", storeKey: generic, key: perSecond, now: now, wrong: "a counter whose window fits no unit",
			values: []Value{text(generic, "1", 2*time.Hour)}},
		{name: "a word", storeKey: minute, key: key, now: now, wrong: "a string that is not a whole number",
			values: []Value{text(minute, "03", time.Minute)}},
	}
}

func TestEnvoyKeys(t *testing.T) {
	for _, storeKey := range []string{"1795294320", "a_1795294320", "a_b_1795294320", "a_b_c_17952943200", "a_b_c_d", "a_b_c_-795294320"} {
		if key, ok := (envoy{}).Match(storeKey, true); ok {
			t.Errorf("%s matches %+v", storeKey, key)
		}
	}
}
