package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limitadorVectors have the store keys of the service's own tests, and are built otherwise.
func limitadorVectors() []vector {
	const (
		plain = `namespace:{example.com},counter:{"limit":{"namespace":"example.com","seconds":60,` +
			`"conditions":["req_method == 'GET'"],"variables":["app_id"]},"set_variables":{"app_id":"foo"}}`
		whole = `namespace:{api},counter:{"limit":{"namespace":"api","seconds":10,"conditions":[],"variables":[]},"set_variables":{}}`
		set   = `namespace:{example.com},counters_of_limit:{"namespace":"example.com","seconds":60,` +
			`"conditions":["req_method == 'GET'"],"variables":["app_id"]}`
		id    = "\x02\x07test_id\x01\x06app_id\x03foo"
		idSet = "\x02\x07test_id"
	)
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10, FromFirst: true}
	said := store.Limit{Count: 10, Period: time.Minute}
	key := store.Key{Subject: "app_id=foo", Name: "limitador/example.com/1m"}
	idKey := store.Key{Subject: "app_id=foo", Name: "limitador/test_id"}
	setKey := store.Key{Subject: "example.com", Name: "limitador/example.com/1m"}
	grown := []admin.Defect{{Kind: admin.Grows, Stuck: true,
		Text: "it only grows: nothing removes what was added (Kuadrant/limitador: the set counters_of_limit keeps expired counters)"}}
	return []vector{
		{name: "three", storeKey: plain, key: key, limit: said, certain: true, values: []Value{text(plain, "3", 40*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 40 * time.Second}}}},
		{name: "over the limit by a race", storeKey: plain, key: key, limit: said, certain: true,
			values: []Value{text(plain, "11", 40*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 11, RetryAfter: 40 * time.Second, ResetAfter: 40 * time.Second}}}},
		{name: "no variables, the limit is of another period", storeKey: whole, limit: said, certain: true,
			key: store.Key{Subject: "api", Name: "limitador/api/10s"}, values: []Value{text(whole, "3", 4*time.Second)},
			want: []admin.Entry{{Limit: store.Limit{Algorithm: store.FixedWindow, Period: 10 * time.Second, FromFirst: true},
				ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: 4 * time.Second}}}},
		{name: "kept for ever", storeKey: plain, key: key, limit: said, certain: true, values: []Value{text(plain, "10", -1)},
			want: []admin.Entry{{Limit: limit, Decision: store.Decision{Used: 10},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true, Text: "no expiry, so it denies for ever"}}}}},
		{name: "with an id", storeKey: id, key: idKey, limit: said, certain: true, values: []Value{text(id, "3", 40*time.Second)},
			want: []admin.Entry{{Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Allowed: true, Used: 3, Remaining: 7, ResetAfter: 40 * time.Second}}}},
		{name: "with an id, without the limit", storeKey: id, key: idKey, certain: true, values: []Value{text(id, "3", 40*time.Second)},
			want: []admin.Entry{{ResetTold: true, Decision: store.Decision{Used: 3, ResetAfter: 40 * time.Second}}}},
		{name: "a set", storeKey: set, key: setKey, certain: true, values: []Value{{StoreKey: set, Type: SetValue, Length: 20, TTL: -1}}},
		{name: "a set that has grown", storeKey: set, key: setKey, certain: true,
			values: []Value{{StoreKey: set, Type: SetValue, Length: 20_000, TTL: -1}},
			want: []admin.Entry{{Key: store.Key{Subject: "example.com", Name: "limitador/example.com/1m/counters"},
				UsedUnknown: true, Defects: grown}}},
		{name: "a set of an id that has grown", storeKey: idSet, key: store.Key{Subject: "test_id", Name: "limitador/test_id"},
			certain: true,
			values:  []Value{{StoreKey: idSet, Type: SetValue, Length: 20_000, TTL: -1}},
			want: []admin.Entry{{Key: store.Key{Subject: "test_id", Name: "limitador/test_id/counters"},
				UsedUnknown: true, Defects: grown}}},
		{name: "a list", storeKey: plain, key: key, wrong: "a list, not a string", values: []Value{{StoreKey: plain, Type: ListValue}}},
		{name: "no set", storeKey: idSet, key: store.Key{Subject: "test_id", Name: "limitador/test_id"}, wrong: "a string, not a set",
			values: []Value{text(idSet, "3", time.Minute)}},
	}
}

func TestLimitadorKeys(t *testing.T) {
	for _, storeKey := range []string{
		"", "namespace:{a}", "namespace:{a},counter:", "namespace:{a},counter:{}", "\x02", "\x02\x00", "\x02\x07short", "\x02\x01a\x01",
		"\x02\x01a\x00\x00", "\x02\x01\xff\x00", "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
		`namespace:{a},counter:{"limit":{"namespace":"b","seconds":60,"conditions":[],"variables":[]},"set_variables":{}}`,
		`namespace:{a},counter:{"limit":{"namespace":"a","seconds":60,"conditions":[],"variables":[]},"set_variables":{}},reservations`,
		`namespace:{a},counter:{"limit":{"namespace":"a","seconds":0,"conditions":[],"variables":[]},"set_variables":{}}`,
	} {
		if key, ok := (limitador{}).Match(storeKey, true); ok {
			t.Errorf("%q matches %+v", storeKey, key)
		}
	}
}

func TestLimitadorSetRemaining(t *testing.T) {
	v := limitadorVectors()[1]
	checkSet(t, limitador{}, v.found(limitador{}, store.Key{}), 6, Write{StoreKey: v.storeKey, Text: "4"})
	v = limitadorVectors()[3]
	checkSet(t, limitador{}, v.found(limitador{}, store.Key{}), 6, Write{StoreKey: v.storeKey, Text: "4", TTL: time.Minute})
	v = limitadorVectors()[7]
	if _, err := (limitador{}).SetRemaining(v.found(limitador{}, store.Key{}), 6); err == nil {
		t.Error("it sets what remains of a set")
	}
}

func FuzzLimitadorKey(f *testing.F) {
	for _, v := range limitadorVectors() {
		f.Add(v.storeKey)
	}
	f.Fuzz(func(t *testing.T, storeKey string) {
		key, ok := limitador{}.Match(storeKey, true)
		if ok && (key.Subject == "" && key.Name == "limitador/" || len(key.Subject) > 2*len(storeKey)) {
			t.Errorf("%q matches %+v", storeKey, key)
		}
	})
}
