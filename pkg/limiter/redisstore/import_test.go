package redisstore_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What ended meanwhile is not brought back, and what another program wrote is left as it is, whether
// keys in use are replaced or not.
func TestWhatAnImportLeaves(t *testing.T) {
	client := socketClient(t, redistest.Start(t))
	backend := newStore(t, client)
	key := store.Key{Subject: "s", Name: "n"}
	mustTake(t, storecall.New(backend), key, hundred, 3)
	storeKey := admin.OwnLayout(store.DefaultPrefix).StoreKey(key)
	value, err := client.Get(ctx, storeKey).Result()
	must(t, err)
	var state store.State
	must(t, state.DecodeRecord([]byte(value)))
	unused := time.Duration((int64(state.UnusedAt(state.Time))+999)/1000) * time.Millisecond
	now, err := client.Time(ctx).Result()
	must(t, err)
	hour := now.Add(time.Hour).Truncate(time.Millisecond)
	for _, test := range []struct {
		what, held string
		expires    time.Time
		replace    bool
		want       admin.ImportOutcome
	}{
		{"of an hour", "", hour, false, admin.Imported},
		{"for ever", "", time.Time{}, false, admin.Imported},
		{"ended", "", now.Add(-time.Millisecond), false, admin.Lapsed},
		{"ended, replacing", value + "x", now.Add(-time.Millisecond), true, admin.Lapsed},
		{"the same", value, hour, false, admin.AlreadyThere},
		{"used since", value + "x", hour, false, admin.InUse},
		{"used since, replacing", value + "x", hour, true, admin.Imported},
		{"another program's", "17", hour, false, admin.Foreign},
		{"another program's, replacing", "17", hour, true, admin.Foreign},
	} {
		must(t, client.Del(ctx, storeKey).Err())
		if test.held != "" {
			must(t, client.Set(ctx, storeKey, test.held, 0).Err())
		}
		outcomes, err := backend.Import(ctx, test.replace, admin.Record{Key: key, Value: []byte(value), Expires: test.expires})
		if err != nil || len(outcomes) != 1 || outcomes[0] != test.want {
			t.Errorf("%s: %v, %v, not %v", test.what, outcomes, err, test.want)
		}
		held, _ := client.Get(ctx, storeKey).Result()
		expires := client.PExpireTime(ctx, storeKey).Val()
		switch {
		case test.want != admin.Imported && held != test.held:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, test.held)
		case test.want == admin.Imported && held != value:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, value)
		case test.want == admin.Imported && !test.expires.IsZero() && expires != time.Duration(test.expires.UnixMilli())*time.Millisecond,
			test.want == admin.Imported && test.expires.IsZero() && expires != unused:
			t.Errorf("%s: it expires at %d, not at %s", test.what, expires, test.expires)
		}
	}
}
