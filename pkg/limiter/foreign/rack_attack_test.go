package foreign

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func rackAttackVectors() []vector {
	const storeKey = "rack::attack:29921572:req/ip:203.0.113.9" // the minute of somewhen
	const until = 48_550 * time.Millisecond
	key := limiter.Key{Subject: "req/ip:203.0.113.9", Name: "rack-attack"}
	minute := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}
	withoutCount := limiter.Limit{Algorithm: limiter.FixedWindow, Period: time.Minute}
	hour := "rack::attack:498692:allow2ban:count:login:203.0.113.9"
	never := func(text string) []limiter.Defect {
		return []limiter.Defect{{Kind: limiter.NeverExpires, Stuck: true, Text: text}}
	}
	return []vector{
		{name: "five", storeKey: storeKey, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(storeKey, "5", 49*time.Second)},
			want: []limiter.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{Allowed: true, Used: 5, Remaining: 5, ResetAfter: until}}}},
		{name: "too many", storeKey: storeKey, key: key, limit: tenPerMinute, now: somewhen, certain: true,
			values: []Value{text(storeKey, "13", 49*time.Second)},
			want: []limiter.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{Used: 13, RetryAfter: until, ResetAfter: until}}}},
		{name: "the period of the number", storeKey: storeKey, key: key, now: somewhen, certain: true,
			values: []Value{text(storeKey, "5", 49*time.Second)},
			want:   []limiter.Entry{{Limit: withoutCount, ResetTold: true, Decision: limiter.Decision{Used: 5, ResetAfter: until}}}},
		{name: "another limit was said", storeKey: storeKey, key: key, limit: limiter.Limit{Count: 3, Period: time.Hour}, now: somewhen,
			certain: true, values: []Value{text(storeKey, "5", 49*time.Second)},
			want: []limiter.Entry{{Limit: withoutCount, ResetTold: true, Decision: limiter.Decision{Used: 5, ResetAfter: until}}}},
		{name: "with the namespace of Rails", storeKey: "shop:" + storeKey, key: key, now: somewhen,
			values: []Value{text("shop:"+storeKey, "5", 49*time.Second)},
			want:   []limiter.Entry{{Limit: withoutCount, ResetTold: true, Decision: limiter.Decision{Used: 5, ResetAfter: until}}}},
		{name: "the window before", storeKey: "rack::attack:29921571:req/ip:203.0.113.9", key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text("rack::attack:29921571:req/ip:203.0.113.9", "13", 800*time.Millisecond)},
			want: []limiter.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Key:      limiter.Key{Subject: key.Subject, Name: "rack-attack@29921571"},
				Decision: limiter.Decision{Allowed: true, Remaining: 10}}}},
		{name: "a window long past", storeKey: "rack::attack:29621572:req/ip:203.0.113.9", key: key, limit: tenPerMinute, now: somewhen,
			values: []Value{text("rack::attack:29621572:req/ip:203.0.113.9", "13", -1)},
			want: []limiter.Entry{{Limit: minute, RetryTold: true, ResetTold: true,
				Key:      limiter.Key{Subject: key.Subject, Name: "rack-attack@29621572"},
				Decision: limiter.Decision{Allowed: true, Remaining: 10},
				Defects:  never("no expiry, so the key stays although it counts for nothing")}}},
		{name: "a ban", storeKey: "rack::attack:fail2ban:ban:pentesters-203.0.113.9", limit: tenPerMinute, now: somewhen, certain: true,
			key:    limiter.Key{Subject: "pentesters-203.0.113.9", Name: "rack-attack/fail2ban"},
			values: []Value{text("rack::attack:fail2ban:ban:pentesters-203.0.113.9", "1", 4*time.Minute)},
			want: []limiter.Entry{{UsedUnknown: true, RetryTold: true, ResetTold: true,
				Decision: limiter.Decision{RetryAfter: 4 * time.Minute, ResetAfter: 4 * time.Minute}}}},
		{name: "a ban for ever", storeKey: "rack::attack:allow2ban:ban:a", now: somewhen, certain: true,
			key:    limiter.Key{Subject: "a", Name: "rack-attack/allow2ban"},
			values: []Value{text("rack::attack:allow2ban:ban:a", "1", -1)},
			want: []limiter.Entry{{UsedUnknown: true,
				Defects: never("no expiry, so its count never begins again: it denies for ever once it is at the limit")}}},
		{name: "what may lead to a ban", storeKey: hour, now: somewhen, certain: true,
			key:    limiter.Key{Subject: "login:203.0.113.9", Name: "rack-attack/allow2ban-count"},
			values: []Value{text(hour, "2", 469*time.Second)},
			want: []limiter.Entry{{Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Period: time.Hour}, ResetTold: true,
				Decision: limiter.Decision{Used: 2, ResetAfter: 468_550 * time.Millisecond}}}},
		{name: "a word", storeKey: storeKey, key: key, now: somewhen, wrong: "a string that is not a whole number",
			values: []Value{text(storeKey, "many", time.Minute)}},
	}
}
