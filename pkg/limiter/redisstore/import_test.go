package redisstore_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// What ended meanwhile is not brought back, and what another program wrote is left as it is, whether
// keys in use are replaced or not.
func TestWhatAnImportLeaves(t *testing.T) {
	client := socketClient(t, redistest.Start(t))
	store := newStore(t, client)
	key := limiter.Key{Subject: "s", Name: "n"}
	if _, err := limiter.New(store).Take(ctx, key, hundred, 3); err != nil {
		t.Fatal(err)
	}
	storeKey := limiter.OwnLayout(limiter.DefaultPrefix).StoreKey(key)
	value, err := client.Get(ctx, storeKey).Result()
	if err != nil {
		t.Fatal(err)
	}
	var state limiter.State
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
		want       limiter.ImportOutcome
	}{
		{"of an hour", "", hour, false, limiter.Imported},
		{"for ever", "", time.Time{}, false, limiter.Imported},
		{"ended", "", now.Add(-time.Millisecond), false, limiter.Lapsed},
		{"ended, replacing", value + "x", now.Add(-time.Millisecond), true, limiter.Lapsed},
		{"the same", value, hour, false, limiter.AlreadyThere},
		{"used since", value + "x", hour, false, limiter.InUse},
		{"used since, replacing", value + "x", hour, true, limiter.Imported},
		{"another program's", "17", hour, false, limiter.Foreign},
		{"another program's, replacing", "17", hour, true, limiter.Foreign},
	} {
		if err := client.Del(ctx, storeKey).Err(); err != nil {
			t.Fatal(err)
		}
		if test.held != "" {
			if err := client.Set(ctx, storeKey, test.held, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		outcomes, err := store.Import(ctx, test.replace, limiter.Record{Key: key, Value: []byte(value), Expires: test.expires})
		if err != nil || len(outcomes) != 1 || outcomes[0] != test.want {
			t.Errorf("%s: %v, %v, not %v", test.what, outcomes, err, test.want)
		}
		held, _ := client.Get(ctx, storeKey).Result()
		expires := client.PExpireTime(ctx, storeKey).Val()
		switch {
		case test.want != limiter.Imported && held != test.held:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, test.held)
		case test.want == limiter.Imported && held != value:
			t.Errorf("%s: the key holds %q, not %q", test.what, held, value)
		case test.want == limiter.Imported && !test.expires.IsZero() && expires != time.Duration(test.expires.UnixMilli())*time.Millisecond,
			test.want == limiter.Imported && test.expires.IsZero() && expires != unused:
			t.Errorf("%s: it expires at %d, not at %s", test.what, expires, test.expires)
		}
	}
}
