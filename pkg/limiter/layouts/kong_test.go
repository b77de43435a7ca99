package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	kongRoute   = "0c9f2d2e-6f0b-4e4a-9a62-2f6b0a1c8d11"
	kongService = "5b7a3e1c-9a55-4f0e-8d42-1b2c3d4e5f60"
)

// kongVectors are built from the forms of the keys and from what the plugins say of a count.
func kongVectors() []vector {
	const (
		now    store.Instant = 1_795_294_331_450_000 // 2026-11-21T20:52:11.45Z
		minute               = kongRate + kongNobody + ":" + kongNobody + ":203.0.113.9:1795294320000:minute"
		ipv6                 = kongRate + kongRoute + ":" + kongNobody + ":2001:db8::1:1795294800000:hour"
		month                = kongRate + kongRoute + ":" + kongService + ":/v1/a:b:1793491200000:month"
		video                = kongResponse + kongNobody + ":" + kongNobody + ":alice:1795294320000:video:hd:minute"
	)
	window := func(period time.Duration, count int64) store.Limit {
		return store.Limit{Algorithm: store.FixedWindow, Count: count, Period: period, Burst: count}
	}
	const left = 48_550 * time.Millisecond
	return []vector{
		{name: "a minute", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"}, now: now, certain: true,
			limit: store.Limit{Count: 5, Period: time.Minute}, values: []Value{text(minute, "3", 51*time.Second)},
			want: []admin.Entry{{Limit: window(time.Minute, 5), ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 2, ResetAfter: left}}}},
		{name: "denied ones count", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"}, now: now, certain: true,
			limit: store.Limit{Count: 5, Period: time.Minute}, values: []Value{text(minute, "12", 51*time.Second)},
			want: []admin.Entry{{Limit: window(time.Minute, 5), ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 12, ResetAfter: left, RetryAfter: left}}}},
		{name: "a count alone", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"}, now: now, certain: true,
			limit: store.Limit{Count: 5, Burst: 5}, values: []Value{text(minute, "3", 51*time.Second)},
			want: []admin.Entry{{Limit: window(time.Minute, 5), ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 2, ResetAfter: left}}}},
		{name: "a limit of another period", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"},
			now: now, certain: true, limit: store.Limit{Count: 5, Period: time.Hour}, values: []Value{text(minute, "3", 51*time.Second)},
			want: []admin.Entry{{Limit: window(time.Minute, 0), ResetTold: true,
				Decision: store.Decision{Used: 3, ResetAfter: left}}}},
		{name: "a minute past, kept for ever", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"},
			now: now + 60e6, certain: true, limit: store.Limit{Count: 5, Period: time.Minute}, values: []Value{text(minute, "9", -1)},
			want: []admin.Entry{{Key: store.Key{Subject: "203.0.113.9", Name: "kong/minute@1795294320"}, Limit: window(time.Minute, 5),
				ResetTold: true, RetryTold: true, Decision: store.Decision{Allowed: true, Remaining: 5},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so the key stays although it counts for nothing (Kong/kong#5763)"}}}}},
		{name: "an expiry in ms", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"}, now: now, certain: true,
			values: []Value{text(minute, "9", never)},
			want: []admin.Entry{{Limit: window(time.Minute, 0), ResetTold: true, Decision: store.Decision{Used: 9, ResetAfter: left},
				Defects: []admin.Defect{{Kind: admin.AbsurdTTL, Text: "an expiry that looks like milliseconds given as seconds, " +
					"so the key stays when it counts for nothing any more (Kong/kong#14995)"}}}}},
		{name: "an IPv6 address, of a route", storeKey: ipv6, key: store.Key{Subject: "2001:db8::1", Name: "kong/hour/" + kongRoute},
			now: 1_795_296_000_000_000, certain: true, values: []Value{text(ipv6, "1", time.Hour)},
			want: []admin.Entry{{Limit: window(time.Hour, 0), ResetTold: true,
				Decision: store.Decision{Used: 1, ResetAfter: 40 * time.Minute}}}},
		{name: "a path in November, of a route and a service, let go of before its end", storeKey: month,
			key: store.Key{Subject: "/v1/a:b", Name: "kong/month/" + kongRoute + "/" + kongService}, now: now, certain: true,
			limit: store.Limit{Count: 100, Period: 31 * day}, values: []Value{text(month, "100", 2*day)},
			want: []admin.Entry{{Limit: window(30*day, 100), ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 100, ResetAfter: 2 * day, RetryAfter: 2 * day}}}},
		{name: "a limit by the response", storeKey: video, key: store.Key{Subject: "alice", Name: "kong/video:hd/minute"},
			now: now, certain: true, values: []Value{text(video, "4", time.Minute)},
			want: []admin.Entry{{Limit: window(time.Minute, 0), ResetTold: true,
				Decision: store.Decision{Used: 4, ResetAfter: left}}}},
		{name: "a hash", storeKey: minute, key: store.Key{Subject: "203.0.113.9", Name: "kong/minute"}, wrong: "a hash, not a string",
			values: []Value{hash(minute, time.Minute, "a", "1")}},
	}
}

// TestKongKeys: what is not in the form of Kong's keys is nobody's.
func TestKongKeys(t *testing.T) {
	for _, storeKey := range []string{
		"ratelimit:", "ratelimit:a:b:c", "ratelimit:a:b:c:1795294320000:minute",
		kongRate + kongNobody + ":" + kongNobody + ":c:1795294321000:minute", // not the begin of a minute
		kongRate + kongNobody + ":" + kongNobody + ":c:1795294320000:week",
		kongRate + kongNobody + ":" + kongNobody + "::1795294320000:minute",
		kongRate + kongNobody + ":" + kongNobody + ":c:-1795294320000:minute",
		kongResponse + kongNobody + ":" + kongNobody + ":c:1795294320000:minute",
		kongRate + kongNobody + ":" + kongNobody + ":c:1793491200000:year",
	} {
		if key, ok := (kong{}).Match(storeKey, false); ok {
			t.Errorf("%s matches %+v", storeKey, key)
		}
	}
	if _, ok := (kong{}).Match("ratelimit:a:b:c:1795294320000:minute", true); !ok {
		t.Error("other names of routes do not match, although they were asked for")
	}
}
