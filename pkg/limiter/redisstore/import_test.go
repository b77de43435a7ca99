package redisstore_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What ended meanwhile is not brought back, and what another program wrote is left as it is, whether
// keys in use are replaced or not.
func TestWhatAnImportLeaves(t *testing.T) {
	client := socketClient(t, redistest.Start(t))
	backend := newStore(t, client)
	key := store.Key{Subject: "s", Name: "n"}
	if _, err := store.New(backend).Take(ctx, key, hundred, 3); err != nil {
		t.Fatal(err)
	}
	storeKey := store.OwnLayout(store.DefaultPrefix).StoreKey(key)
	value, err := client.Get(ctx, storeKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	var state store.State
	if err := state.DecodeRecord([]byte(value)); err != nil {
		t.Fatal(err)
	}
	unused := time.Duration((int64(state.UnusedAt(state.Time))+999)/1000) * time.Millisecond
	now, err := client.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	hour := now.Add(time.Hour).Truncate(time.Millisecond)
	for _, test := range []struct {
		what, held string
		expires    time.Time
		replace    bool
		want       store.ImportOutcome
	}{
		{"of an hour", "", hour, false, store.Imported},
		{"for ever", "", time.Time{}, false, store.Imported},
		{"ended", "", now.Add(-time.Millisecond), false, store.Lapsed},
		{"ended, replacing", value + "x", now.Add(-time.Millisecond), true, store.Lapsed},
		{"the same", value, hour, false, store.AlreadyThere},
		{"used since", value + "x", hour, false, store.InUse},
		{"used since, replacing", value + "x", hour, true, store.Imported},
		{"another program's", "17", hour, false, store.Foreign},
		{"another program's, replacing", "17", hour, true, store.Foreign},
	} {
		if err := client.Del(ctx, storeKey).Err(); err != nil {
			t.Fatal(err)
		}
		if test.held != "" {
			if err := client.Set(ctx, storeKey, test.held, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		outcomes, err := backend.Import(ctx, test.replace, store.Record{Key: key, Value: []byte(value), Expires: test.expires})
		if err != nil || len(outcomes) != 1 || outcomes[0] != test.want {
			t.Errorf("%s: %v, %v, not %v", test.what, outcomes, err, test.want)
		}
		held, _ := client.Get(ctx, storeKey).Result()
		expires := client.PExpireTime(ctx, storeKey).Val()
		switch {
		case test.want != store.Imported && held != test.held:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, test.held)
		case test.want == store.Imported && held != value:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, value)
		case test.want == store.Imported && !test.expires.IsZero() && expires != time.Duration(test.expires.UnixMilli())*time.Millisecond,
			test.want == store.Imported && test.expires.IsZero() && expires != unused:
			t.Errorf("%s: it expires at %d, not at %s", test.what, expires, test.expires)
		}
	}
}
