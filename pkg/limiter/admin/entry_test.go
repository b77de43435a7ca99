package admin_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

// What is known about an entry follows from what is known about its limit and its usage.
func TestWhatIsKnownOfAnEntry(t *testing.T) {
	type known struct {
		used, capacity, limit, remaining, retry, reset, atLimit bool
		share                                                   float64
		text                                                    string
	}
	wants := map[string]known{
		"whole":     {true, true, true, true, true, true, true, 1, "fixed-window:10/1m"},
		"no-period": {true, true, false, true, false, true, false, 0.9, "fixed-window:10/?"},
		"no-count":  {true, false, false, false, false, true, false, 0, "fixed-window:?/1m"},
		"used-only": {true, false, false, false, false, true, false, 0, "unknown"},
		"silent":    {false, false, false, false, false, false, false, 0, "unknown"},
	}
	for _, e := range storetest.NotAllKnown().List {
		want, has := wants[e.Key.Subject]
		delete(wants, e.Key.Subject)
		share, shareKnown := e.Share()
		got := known{e.UsedKnown(), e.CapacityKnown(), e.LimitKnown(), e.RemainingKnown(), e.RetryKnown(),
			e.ResetKnown(), e.AtLimit(), share, e.LimitText()}
		if has && (got != want || shareKnown != want.remaining) {
			t.Errorf("%s: known are %+v, want %+v", e.Key.Subject, got, want)
		}
	}
	if len(wants) > 0 {
		t.Errorf("there are no entries %v", wants)
	}
}

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
	if err != nil || beginning.Limit != limit || beginning.UsedKnown() || beginning.State != nil ||
		beginning.TTL != time.Hour {
		t.Errorf("its beginning is %+v, %v", beginning, err)
	}
	for name, wrong := range map[string]*admin.Held{
		"a text": held([]byte("hello"), 5), "a beginning of a text": held(make([]byte, 64), 1000),
		"too long":       held(record[:64], store.MaxRecordSize+1),
		"one byte short": held(record[:len(record)-1], len(record)-1),
	} {
		if entry, err := layout.Entry(&admin.Query{}, key, wrong, now+100); err == nil {
			t.Errorf("of %s it makes %+v", name, entry)
		}
	}
}
