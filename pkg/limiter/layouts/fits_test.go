package layouts

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What any layout has read is fit to be restored, selected by the store key or the subject.
func TestRecordsThatWereReadFit(t *testing.T) {
	for _, layout := range All() {
		for _, v := range vectors()[layout.Info().Name] {
			if strings.HasPrefix(v.says, "wrong") {
				continue
			}
			for _, selected := range []store.Pattern{{}, pattern(t, "*"), exactly(t, v.storeKey)} {
				asked := &admin.Query{Subjects: exactly(t, v.storeKey)}
				look := (Sources{{Layout: layout, Limit: v.limit}}).Look(v.storeKey, asked)
				if look == nil {
					t.Fatalf("%s is not looked at", v.name)
				}
				look.StoreKeys(v.now)
				entries, _, err := look.Judge(v.value)
				if err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				for i := range entries {
					if err := CheckRecord(&entries[i].Record, selected); err != nil {
						t.Errorf("%s/%s: %+v by %q: %v", layout.Info().Name, v.name, entries[i].Record, selected, err)
					}
				}
			}
		}
	}
}

func exactly(t testing.TB, storeKey string) store.Pattern {
	t.Helper()
	return must(store.ExactStoreKeyPattern(storeKey))
}

// What no layout can have read is not fit.
func TestRecordsThatDoNotFit(t *testing.T) {
	record := func(subject, name string, storeKeys ...string) admin.Record {
		r := admin.Record{Key: store.Key{Subject: subject, Name: name}}
		for _, storeKey := range storeKeys {
			r.Members = append(r.Members, admin.Member{StoreKey: storeKey, Type: "string"})
		}
		return r
	}
	kong := named("kong").Info().Example
	for _, test := range []struct {
		record   admin.Record
		selected string
		want     string // empty if it fits
	}{
		{record("login:42", "redis_rate", "rate:login:42"), "*", ""},
		{record("session:alice", "redis_rate", "session:alice"), "*", `key "session:alice" cannot be of redis_rate`},
		{record("login:42", "redis_rate", "rate:admin"), "*", `key "rate:admin" is not of limit redis_rate of "login:42"`},
		{record("login:42", "redis_rate", "rate:login:42", "rate:b"), "*", `keys "rate:login:42" and "rate:b" are not of one limit`},
		{record("login:42", "redis_rate", "my:rate:login:42"), "my:*", ""},
		{record("login:42", "redis_rate", "yours:rate:login:42"), "my:*", `key "yours:rate:login:42" was not selected by my:*`},
		{record("a", "upstash@2", "a:2"), "a:*", ""}, // the number is a window's, as its value tells
		{record("alice", "counter", "session:alice"), "alice", `is not of limit counter of "alice"`},
		{record("x", "nosuch", "x"), "*", `layout "nosuch" is not known`},
		{record("203.0.113.9", "kong/minute", kong), "*", ""},
		{record("203.0.113.9", "kong/hour", kong), "*", `is not of limit kong/hour`},
		{record("session:alice", "kong/minute", "session:alice"), "*", `cannot be of kong`},
		{record("my:rl:a", "counter", "my:rl:a"), "my:rl:*", ""},
		{record("session:alice", "counter", "session:alice"), "my:rl:*", `key "session:alice" was not selected by my:rl:*`},
		{record("my:rl:a", "counter", "session:alice"), "my:rl:*", `is not of limit counter of "my:rl:a"`},
		{record("session:alice", "time-set", "session:alice"), "my:rl:*", `was not selected`},
		{record("session:alice", "token-hash", "session:alice"), "my:rl:*", `was not selected`},
		{record("session:alice", "throttled", "session:alice"), "my:rl:*", `was not selected`},
		{record("my:rl:a", "counter", "my:rl:a", "session:alice"), "my:rl:*", `are not of one limit`},
	} {
		err := CheckRecord(&test.record, pattern(t, test.selected))
		switch {
		case (err == nil) != (test.want == ""):
			t.Errorf("%+v by %s: %v, want %q", test.record, test.selected, err, test.want)
		case err != nil && !strings.Contains(err.Error(), test.want):
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
