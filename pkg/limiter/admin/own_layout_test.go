package admin_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestOwnLayoutDecodes(t *testing.T) {
	now := store.Instant(1_700_000_000_000_000)
	limit, err := store.Limit{Algorithm: store.SlidingLog, Count: 1000, Period: time.Minute}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	var s store.State
	for i := range store.Instant(100) {
		s.Charge(limit, 1, now+i)
	}
	record := s.AppendRecord(nil)
	layout := admin.OwnLayout("rl")
	key := store.Key{Subject: "u", Name: "n"}
	held := func(text []byte, length int) *admin.Held {
		return &admin.Held{StoreKey: layout.StoreKey(key), Text: text, Length: int64(length), TTL: time.Hour}
	}
	whole, err := layout.Entry(&admin.Query{}, key, held(record, len(record)), now+100)
	if err != nil || whole.Key != key || whole.StoreKey != "rl:{u}:n" || whole.Limit != limit || whole.Used != 100 ||
		whole.TTL != time.Hour || whole.State == nil || whole.State.IsShort() {
		t.Errorf("the whole record is %+v, %v", whole, err)
	}
	beginning, err := layout.Entry(&admin.Query{}, key, held(record[:64], len(record)), now+100)
	if err != nil || beginning.Limit != limit || beginning.UsedKnown() || beginning.State != nil || beginning.TTL != time.Hour {
		t.Errorf("its beginning is %+v, %v", beginning, err)
	}
	for name, wrong := range map[string]*admin.Held{
		"a text": held([]byte("hello"), 5), "a beginning of a text": held(make([]byte, 64), 1000),
		"too long": held(record[:64], store.MaxRecordSize+1), "one byte short": held(record[:len(record)-1], len(record)-1),
	} {
		if entry, err := layout.Entry(&admin.Query{}, key, wrong, now+100); err == nil {
			t.Errorf("of %s it makes %+v", name, entry)
		}
	}
}

// Decoding never panics, whatever a server answers.
func TestOwnLayoutDecodesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		if rapid.Bool().Draw(t, "like a record") {
			text = append([]byte("RL\x01\x01\x00\x00\x00\x0a\x00\x00\x00\x0a"), text...)
		}
		key := store.Key{Subject: "u", Name: "n"}
		held := admin.Held{StoreKey: "rl:{u}:n", Text: text, Length: rapid.Int64Range(0, 100).Draw(t, "length")}
		entry, err := admin.OwnLayout("rl").Entry(&admin.Query{}, key, &held, 1)
		if err == nil && entry.Key != key {
			t.Fatalf("an entry of another key: %+v", entry)
		}
	})
}
