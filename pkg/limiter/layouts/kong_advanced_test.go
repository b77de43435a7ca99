package layouts

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// kongAdvancedVectors are built from the form of the key and the rule of the sliding window.
func kongAdvancedVectors() []vector {
	const (
		current, previous = "1795294320:60:ns1", "1795294260:60:ns1"
		now               = store.Instant(1_795_294_335_000_000) // a quarter of the minute is over
		name              = "kong/advanced/1m/ns1"
	)
	limit := store.Limit{Algorithm: store.SlidingCounter, Count: 10, Period: time.Minute, Burst: 10}
	part := func(storeKey, field string) admin.Member {
		return admin.Member{StoreKey: storeKey, Field: field, Type: "hash"}
	}
	values := []Value{hash(current, 100*time.Second, "bob", "4", "alice", "9"), hash(previous, 40*time.Second, "alice", "8", "carol", "2")}
	want := []admin.Entry{
		{Key: store.Key{Subject: "alice", Name: name}, Limit: limit, ResetTold: true, RetryTold: true,
			Decision: store.Decision{Used: 15, RetryAfter: 45 * time.Second, ResetAfter: 105 * time.Second},
			Record:   admin.Record{Members: []admin.Member{part(current, "alice"), part(previous, "alice")}}},
		{Key: store.Key{Subject: "bob", Name: name}, Limit: limit, ResetTold: true, RetryTold: true,
			Decision: store.Decision{Allowed: true, Used: 4, Remaining: 6, ResetAfter: 105 * time.Second},
			Record:   admin.Record{Members: []admin.Member{part(current, "bob")}}},
		{Key: store.Key{Subject: "carol", Name: name}, Limit: limit, ResetTold: true, RetryTold: true,
			Decision: store.Decision{Allowed: true, Used: 2, Remaining: 8, ResetAfter: 45 * time.Second},
			Record:   admin.Record{Members: []admin.Member{part(previous, "carol")}}},
	}
	said := store.Limit{Count: 10, Period: time.Minute}
	key := store.Key{Name: name}
	return []vector{
		{name: "advanced: three clients of two windows", storeKey: current, key: key, limit: said, now: now, certain: true,
			values: values, want: want},
		{name: "advanced: by the window before", storeKey: previous, key: key, limit: said, now: now, certain: true,
			values: values, want: want},
		{name: "advanced: denied until the window before has passed enough", storeKey: previous, key: key, limit: said, now: now,
			certain: true,
			values:  []Value{hash(current, time.Minute, "a", "5"), hash(previous, time.Minute, "a", "8")},
			want: []admin.Entry{{Key: store.Key{Subject: "a", Name: name}, Limit: limit, ResetTold: true, RetryTold: true,
				Decision: store.Decision{Used: 11, RetryAfter: 15 * time.Second, ResetAfter: 105 * time.Second},
				Record:   admin.Record{Members: []admin.Member{part(current, "a"), part(previous, "a")}}}}},
		{name: "advanced: a window past", storeKey: "1795294200:60:ns1", key: key, now: now, certain: true,
			values: []Value{hash("1795294200:60:ns1", time.Second, "alice", "9")},
			want: []admin.Entry{{Key: store.Key{Subject: "ns1", Name: name + "@1795294200"}, ResetTold: true, RetryTold: true,
				Limit: store.Limit{Algorithm: store.SlidingCounter, Period: time.Minute}}}},
		{name: "advanced: now, without an expiry as statistics", storeKey: current, key: key, now: now,
			values: []Value{hash(current, -1, "a", "5")},
			want: []admin.Entry{{Key: store.Key{Subject: "a", Name: name}, ResetTold: true,
				Limit:    store.Limit{Algorithm: store.SlidingCounter, Period: time.Minute},
				Decision: store.Decision{Used: 5, ResetAfter: 105 * time.Second},
				Record:   admin.Record{Members: []admin.Member{part(current, "a")}},
				Defects: []admin.Defect{{Kind: admin.NeverExpires,
					Text: "no expiry, so the key stays when it counts for nothing any more"}}}}},
		{name: "advanced: past, without an expiry as statistics", storeKey: "1795294200:60:ns1", key: key, now: now,
			values: []Value{hash("1795294200:60:ns1", -1, "alice", "9")},
			want: []admin.Entry{{Key: store.Key{Subject: "ns1", Name: name + "@1795294200"}, ResetTold: true, RetryTold: true,
				Limit: store.Limit{Algorithm: store.SlidingCounter, Period: time.Minute},
				Defects: []admin.Defect{{Kind: admin.NeverExpires, Stuck: true,
					Text: "no expiry, so the key stays although it counts for nothing"}}}}},
		{name: "advanced: a word", storeKey: current, key: key, now: now, wrong: "a hash whose fields are not counters",
			values: []Value{hash(current, time.Minute, "alice", "x")}},
	}
}

func TestKongAdvancedKeys(t *testing.T) {
	for _, storeKey := range []string{"1795294321:60:ns", "1795294320:0:ns", "1795294320:60:", "179529432:60:ns", "1795294320:60",
		"x:60:ns"} {
		if key, ok := (kong{}).Match(storeKey, true); ok {
			t.Errorf("%s matches %+v", storeKey, key)
		}
	}
}

// TestKongAdvancedPartlyRead: of a hash that is too long to be read whole, no count is known.
func TestKongAdvancedPartlyRead(t *testing.T) {
	v := kongAdvancedVectors()[0]
	found := v.found(kong{}, store.Key{})
	found.Values[1].Length++
	reading, err := decode(kong{}, found)
	if err != nil || len(reading.Entries) != 3 || reading.Entries[0].UsedKnown() {
		t.Errorf("%+v, %v", reading, err)
	}
}

func TestKongAdvancedSetRemaining(t *testing.T) {
	v := kongAdvancedVectors()[0]
	found := v.found(kong{}, store.Key{})
	found.Key.Subject = "alice"
	checkSet(t, kong{}, found, 7, Write{StoreKey: v.values[0].StoreKey, Field: "alice", Text: "3"},
		Write{StoreKey: v.values[1].StoreKey, Field: "alice", Text: "0"})
	found.Key.Subject = "carol"
	found.Values[0] = Value{StoreKey: v.values[0].StoreKey, Type: NoValue, TTL: -2}
	checkSet(t, kong{}, found, 7, Write{StoreKey: v.values[0].StoreKey, Field: "carol", Text: "3", TTL: 2 * time.Minute},
		Write{StoreKey: v.values[1].StoreKey, Field: "carol", Text: "0"})
}
