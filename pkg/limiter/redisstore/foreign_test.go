package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// traefikBucket puts a bucket as Traefik writes it under a store key.
func traefikBucket(server *redistest.Server, storeKey string) {
	server.Do("HSET", storeKey, "last", time.Now().UnixMicro(), "tokens", "0.4")
	server.Do("EXPIRE", storeKey, 2000)
}

const aHash = "a hash, which is not a limit record"

// held scans for foreign values, and returns what each store key holds.
func heldByStore(t *testing.T, backend admin.Keyspace, subjects string) map[string]string {
	t.Helper()
	p, err := store.ParsePattern(subjects)
	must(t, err)
	holds := map[string]string{}
	for entry, err := range backend.Scan(ctx, admin.Query{Subjects: p, Foreign: true}) {
		var foreign *store.ForeignError
		switch {
		case errors.As(err, &foreign):
			if entry.StoreKey != foreign.StoreKey || holds[foreign.StoreKey] != "" {
				t.Errorf("%q has error %v", entry.StoreKey, err)
			}
			holds[foreign.StoreKey] = foreign.Holds
		case err != nil:
			t.Fatal(err)
		}
	}
	return holds
}

func TestScanForForeignKeys(t *testing.T) {
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Hour}
	mustTake(t, storecall.New(backend), store.Key{Subject: "u", Name: "n"}, limit, 1)
	server.Do("COPY", "rl:{u}:n", "rl:copy")
	server.Do("SET", "rl:user:1", "hello")
	server.Do("SET", "rl:{u}:m", "hello")
	server.Do("RPUSH", "rl:\xff\n", "1")
	server.Do("SET", "other:1", "hello")
	traefikBucket(server, "rl:mw")
	if _, err := backend.EnsureStoreID(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"rl:copy":   "a limit record, under a key that no limit has",
		"rl:user:1": "5 bytes that are not a limit record",
		"rl:{u}:m":  "5 bytes that are not a limit record",
		"rl:\xff\n": "a list, which is not a limit record",
		"rl:mw":     aHash,
	}
	if got := heldByStore(t, backend, "*"); !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := heldByStore(t, backend, "user:*"); !maps.Equal(got, map[string]string{"rl:user:1": want["rl:user:1"]}) {
		t.Errorf("of user:* it finds %q", got)
	}
	if got := heldByStore(t, backend, "user:1"); len(got) != 1 {
		t.Errorf("of user:1 it finds %q", got)
	}
}

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
		{"ended, replacing", value + "x", now.Add(-time.Millisecond), true, admin.Lapsed},
		{"used since, replacing", value + "x", hour, true, admin.Imported},
		{"another program's", "17", hour, false, admin.Foreign},
		{"another program's, replacing", "17", hour, true, admin.Foreign},
	} {
		must(t, client.Del(ctx, storeKey).Err())
		if test.held != "" {
			must(t, client.Set(ctx, storeKey, test.held, 0).Err())
		}
		outcomes, err := backend.Import(
			ctx, test.replace, admin.Record{Key: key, Value: []byte(value), Expires: test.expires})
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
		case test.want == admin.Imported && !test.expires.IsZero() &&
			expires != time.Duration(test.expires.UnixMilli())*time.Millisecond,
			test.want == admin.Imported && test.expires.IsZero() && expires != unused:
			t.Errorf("%s: it expires at %d, not at %s", test.what, expires, test.expires)
		}
	}
}

// The journal never expires. What somebody else has added is counted as damaged, and does not hide what is before it.
func TestForeignEntriesOfTheJournal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	const key = "rl!{audit}"
	must(t, backend.AppendJournal(t.Context(), "by the store"))
	if ttl := server.Do("PTTL", key); ttl != int64(-1) {
		t.Errorf("it expires in %v ms", ttl)
	}
	server.Do("DEL", key)
	for i, words := range [][]any{
		{"text", "first"}, {"other", "a field"}, {"text", "two", "and", "more"}, {"text", ""}, {"text", "\xff"},
		{"text", strings.Repeat("x", admin.MaxJournalText+1)}, {"text", strings.Repeat("x", admin.MaxJournalText)},
	} {
		server.Do(append([]any{"XADD", key, fmt.Sprintf("%d-0", 1_795_294_331_000+i)}, words...)...)
	}
	server.Do("XADD", key, fmt.Sprintf("%d-0", store.Instant(store.MaxInstant)/1000), "text", "the last instant")
	server.Do("XADD", key, fmt.Sprintf("%d-0", store.Instant(store.MaxInstant)/1000+1), "text", "beyond all")
	entries, damaged, err := backend.ReadJournal(t.Context(), 100)
	if err != nil || damaged != 6 || len(entries) != 3 || entries[0].Text != "first" ||
		len(entries[1].Text) != admin.MaxJournalText ||
		entries[2].Text != "the last instant" {
		t.Errorf("%d entries, %d damaged, %v", len(entries), damaged, err)
	}
	server.Do("DEL", key)
	server.Do("SET", key, "x")
	if _, _, err := backend.ReadJournal(t.Context(), 1); !errors.Is(err, store.ErrForeign) ||
		!strings.Contains(err.Error(), key) {
		t.Errorf("read a string: %v", err)
	}
	if err := backend.AppendJournal(t.Context(), "x"); !errors.Is(err, store.ErrForeign) ||
		server.Do("GET", key) != "x" {
		t.Errorf("wrote to a string: %v", err)
	}
}
