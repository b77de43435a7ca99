package layouts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A mapping is of many keys, and a stranger among them is told and left, without an error.
func TestStrangersUnderAMapping(t *testing.T) {
	perMinute := store.Limit{Count: 10, Period: time.Minute}
	for _, test := range []struct {
		layout, name string
		value        Value
		subjects     string // of the operator; "*" if empty
		limit        store.Limit
		want         string // of the error; empty if the key is the layout's
	}{
		{layout: "rate-limit-redis", name: "a count", value: text("rl:user:42", "4", 9*time.Second)},
		{layout: "rate-limit-redis", name: "many denied", value: text("rl:user:42", "90000", 9*time.Second)},
		{layout: "rate-limit-redis", name: "an expiry in milliseconds", value: text("rl:user:42", "4", 60_000*time.Second)},
		{layout: "rate-limit-redis", name: "a version", value: text("rl:version", "7", -1), want: "may be of rate-limit-redis: no expiry"},
		{layout: "rate-limit-redis", name: "a version, asked for", value: text("rl:version", "7", -1), subjects: "rl:*"},
		{layout: "rate-limit-redis", name: "taken back", value: text("rl:203.0.113.9", "-1", -1)},
		{layout: "rate-limit-redis", name: "a date", value: text("rl:since", "20261122", 9*time.Second),
			want: "may be of rate-limit-redis"},
		{layout: "rate-limit-redis", name: "a time", value: text("rl:since", "1795294320", -1),
			want: "may be of rate-limit-redis: no expiry"},
		{layout: "rate-limit-redis", name: "kept for a day", value: text("rl:build", "4", 20*time.Hour),
			want: "may be of rate-limit-redis"},
		{layout: "rate-limit-redis", name: "kept for a day, limit unknown", value: text("rl:build", "4", 20*time.Hour),
			limit: store.Limit{Count: 1}},
		{layout: "rate-limit-redis", name: "a word", value: text("rl:version", "v7", -1),
			want: `key "rl:version" holds a string that is not a whole number, which rate-limit-redis does not write`},
		{layout: "rate-limit-redis", name: "a hash", value: hash("rl:config", -1, "a", "b"),
			want: `key "rl:config" holds a hash, not a string, which rate-limit-redis does not write`},
		{layout: "ulule", name: "stuck", value: text("rl:user:42", "5000", -1)},
		{layout: "ulule", name: "a time in seconds", value: text("rl:since", "1795294320", time.Minute), want: "may be of ulule"},
		{layout: "redis_rate", name: "a bucket that takes its time", limit: store.Limit{Count: 1, Period: time.Minute, Burst: 600},
			value: text("rl:rate:a", "312261520.5", 9*time.Hour)},
	} {
		t.Run(test.layout+"/"+test.name, func(t *testing.T) {
			layout := must(Named(test.layout))
			if test.limit == (store.Limit{}) {
				test.limit = perMinute
			}
			if test.subjects == "" {
				test.subjects = "*"
			}
			look := (Sources{{Layout: layout, Keys: pattern(t, "rl:*"), Limit: test.limit}, {Layout: layout, Limit: test.limit}}).
				Look(test.value.StoreKey, &admin.Query{Subjects: pattern(t, test.subjects)})
			look.StoreKeys(1_795_294_335_000_000)
			entries, _, err := look.Judge(func(storeKey string) Value {
				if storeKey == test.value.StoreKey {
					return test.value
				}
				return Value{StoreKey: storeKey, Type: NoValue}
			})
			if errors.Is(err, store.ErrForeign) || (len(entries) == 1) != (test.want == "") {
				t.Fatalf("it is %+v, %v", entries, err)
			}
			if unsure := (*UnsureError)(nil); test.want != "" && (!errors.As(err, &unsure) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
