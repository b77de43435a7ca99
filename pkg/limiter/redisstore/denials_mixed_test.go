package redisstore_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Older versions write only how often and when last, of minutes. What they have written is read, and this version adds to
// it. What this version writes into the hash that they read is as they write it.
func TestDenialsOfOlderVersions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	now := time.UnixMilli(1_795_294_331_450)
	backend := newDenialStore(t, server.Client(), redisstore.WithClock(func() time.Time { return now }))
	value := func(numbers ...int64) (packed string) {
		for _, n := range numbers {
			packed += string(binary.BigEndian.AppendUint64(nil, uint64(n))[2:])
		}
		return packed
	}
	key := func(at time.Time) string { return fmt.Sprintf("rl!{denials:%d}", at.Unix()/60) }
	old := now.Add(-5 * time.Minute)
	server.Do("HSET", key(old), "", value(7, 0), "a\x00n", value(7, old.UnixMilli()))
	server.Do("HSET", key(now), "", value(6, 0), "a\x00n", value(4, now.UnixMilli()-1000), "b\x00n", value(2, now.UnixMilli()))
	for _, last := range []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour} {
		d, err := backend.Denials(t.Context(), last)
		if err != nil || len(d.Rows) != 2 || d.Rows[0].Count != 11 || d.Rows[0].Since != store.InstantOf(old) || !d.Exact() {
			t.Errorf("the last %s of an older version: %+v, %v", last, d, err)
		}
	}
	at := store.InstantOf(now)
	row := admin.Denied{Key: store.Key{Subject: "a", Name: "n"}, Count: 3, LastAt: at, Since: at, Limit: "token-bucket:9/1m",
		Blocked: 1, Compared: 2, Passed: 2}
	if err := backend.AddDenials(t.Context(), admin.Denials{Rows: []admin.Denied{row}, Now: at}); err != nil {
		t.Fatal(err)
	}
	for _, last := range []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour} {
		d, err := backend.Denials(t.Context(), last)
		if err != nil || len(d.Rows) != 2 {
			t.Fatalf("%+v, %v", d, err)
		}
		got := d.Rows[0]
		share, _ := got.Share()
		if got.Count != 14 || got.Since != store.InstantOf(old) || got.Limit != row.Limit || got.Blocked != 1 || share != 0.5 {
			t.Errorf("the last %s of both versions: %+v", last, got)
		}
	}
	held, err := server.Client().HGetAll(t.Context(), key(now)).Result()
	if err != nil || len(held) != 3 || held["a\x00n"] != value(7, now.UnixMilli()) || held[""] != value(9, 0) {
		t.Errorf("an older version reads %q, %v", held, err)
	}
}
