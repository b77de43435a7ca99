package layouts

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func nestjsVectors() []vector {
	tracker := strings.Repeat("9f8a7b6c", 8)
	hits, blocked := "{"+tracker+":default}:hits", "{"+tracker+":default}:blocked"
	key := store.Key{Subject: tracker, Name: "nestjs/default"}
	told := func(d store.Decision) []admin.Entry {
		return []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true, Decision: d}}
	}
	return []vector{
		{name: "two hits", storeKey: hits, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(hits, "2", 30*time.Second)},
			want:   told(store.Decision{Allowed: true, Used: 2, Remaining: 8, ResetAfter: 30 * time.Second})},
		{name: "blocked", storeKey: hits, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(hits, "11", 20*time.Second), text(blocked, "1", 50*time.Second)},
			want:   told(store.Decision{Used: 11, RetryAfter: 50 * time.Second, ResetAfter: 50 * time.Second})},
		{name: "a short block, and again", storeKey: blocked, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(hits, "11", 20*time.Second), text(blocked, "1", 5*time.Second)},
			want:   told(store.Decision{Used: 11, RetryAfter: 20 * time.Second, ResetAfter: 20 * time.Second})},
		{name: "the block alone", storeKey: blocked, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(blocked, "1", 5*time.Second)},
			want:   told(store.Decision{Used: 10, RetryAfter: 5 * time.Second, ResetAfter: 5 * time.Second})},
		{name: "the block alone, without the limit", storeKey: blocked, key: key, certain: true,
			values: []Value{text(blocked, "1", 5*time.Second)},
			want: []admin.Entry{{UsedUnknown: true, RetryTold: true, ResetTold: true,
				Decision: store.Decision{RetryAfter: 5 * time.Second, ResetAfter: 5 * time.Second}}}},
		{name: "a block without an expiry", storeKey: blocked, key: key, limit: tenPerMinute, certain: true,
			values: []Value{text(hits, "11", 20*time.Second), text(blocked, "1", -1)},
			want: []admin.Entry{{Limit: windowTen, RetryTold: true, ResetTold: true,
				Decision: store.Decision{Allowed: true, Remaining: 10},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so the key stays although it counts for nothing"}}}}},
		{name: "an own key", storeKey: "{user:42:login}:hits", key: store.Key{Subject: "user:42", Name: "nestjs/login"},
			values: []Value{text("{user:42:login}:hits", "2", 30*time.Second)},
			want:   []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 2, ResetAfter: 30 * time.Second}}}},
		{name: "a list", storeKey: hits, key: key, wrong: "a list, not a string",
			values: []Value{list(hits, time.Minute, "1")}},
	}
}
