package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func rackAttackVectors() []vector {
	const storeKey = "rack::attack:29921572:req/ip:203.0.113.9" // the minute of somewhen
	const until = 48_550 * time.Millisecond
	key := store.Key{Subject: "req/ip:203.0.113.9", Name: "rack-attack"}
	minute := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	withoutCount := store.Limit{Algorithm: store.FixedWindow, Period: time.Minute}
	hour := "rack::attack:498692:allow2ban:count:login:203.0.113.9"
	never := func(text string) []admin.Defect {
		return []admin.Defect{{Kind: admin.NeverExpires, Stuck: true, Text: text}}
	}
	return []vector{
		{name: "five", storeKey: storeKey, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(storeKey, "5", 49*time.Second)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Used: 5, Remaining: 5, ResetAfter: until}}}},
		{name: "too many", storeKey: storeKey, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(storeKey, "13", 49*time.Second)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Used: 13, RetryAfter: until, ResetAfter: until}}}},
		{name: "the period of the number", storeKey: storeKey, key: key, now: somewhen, certain: true,
			values: []Value{text(storeKey, "5", 49*time.Second)},
			want:   []admin.Entry{{Limit: withoutCount, ResetTold: true, Decision: store.Decision{Used: 5, ResetAfter: until}}}},
		{name: "another limit was said", storeKey: storeKey, key: key, limit: store.Limit{Count: 3, Period: time.Hour}, now: somewhen,
			certain: true, values: []Value{text(storeKey, "5", 49*time.Second)},
			want: []admin.Entry{{Limit: withoutCount, ResetTold: true, Decision: store.Decision{Used: 5, ResetAfter: until}}}},
		{name: "with the namespace of Rails", storeKey: "shop:" + storeKey, key: key, now: somewhen,
			values: []Value{text("shop:"+storeKey, "5", 49*time.Second)},
			want:   []admin.Entry{{Limit: withoutCount, ResetTold: true, Decision: store.Decision{Used: 5, ResetAfter: until}}}},
		{name: "the window before", storeKey: "rack::attack:29921571:req/ip:203.0.113.9", key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text("rack::attack:29921571:req/ip:203.0.113.9", "13", 800*time.Millisecond)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Key:      store.Key{Subject: key.Subject, Name: "rack-attack@29921571"},
				Decision: store.Decision{Allowed: true, Remaining: 10}}}},
		{name: "a window long past", storeKey: "rack::attack:29621572:req/ip:203.0.113.9", key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text("rack::attack:29621572:req/ip:203.0.113.9", "13", -1)},
			want: []admin.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Key:      store.Key{Subject: key.Subject, Name: "rack-attack@29621572"},
				Decision: store.Decision{Allowed: true, Remaining: 10},
				Defects:  never("no expiry, so the key stays although it counts for nothing")}}},
		{name: "a ban", storeKey: "rack::attack:fail2ban:ban:pentesters-203.0.113.9", limit: tenPerMinute, now: somewhen, certain: true,
			key:    store.Key{Subject: "pentesters-203.0.113.9", Name: "rack-attack/fail2ban"},
			values: []Value{text("rack::attack:fail2ban:ban:pentesters-203.0.113.9", "1", 4*time.Minute)},
			want: []admin.Entry{{UsedUnknown: true, RetryTold: true, ResetTold: true,
				Decision: store.Decision{RetryAfter: 4 * time.Minute, ResetAfter: 4 * time.Minute}}}},
		{name: "a ban for ever", storeKey: "rack::attack:allow2ban:ban:a", now: somewhen, certain: true,
			key:    store.Key{Subject: "a", Name: "rack-attack/allow2ban"},
			values: []Value{text("rack::attack:allow2ban:ban:a", "1", -1)},
			want: []admin.Entry{{UsedUnknown: true,
				Defects: never("no expiry, so its count never begins again: it denies for ever once it is at the limit")}}},
		{name: "what may lead to a ban", storeKey: hour, now: somewhen, certain: true,
			key:    store.Key{Subject: "login:203.0.113.9", Name: "rack-attack/allow2ban-count"},
			values: []Value{text(hour, "2", 469*time.Second)},
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.FixedWindow, Period: time.Hour}, ResetTold: true,
				Decision: store.Decision{Used: 2, ResetAfter: 468_550 * time.Millisecond}}}},
		{name: "a word", storeKey: storeKey, key: key, now: somewhen, wrong: "a string that is not a whole number",
			values: []Value{text(storeKey, "many", time.Minute)}},
	}
}
