package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
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
		held, expires := client.Get(ctx, storeKey).Val(), client.PExpireTime(ctx, storeKey).Val()
		want, ends := test.held, test.expires.Sub(time.UnixMilli(0))
		if test.want == admin.Imported {
			want = value
		}
		if test.expires.IsZero() {
			ends = unused
		}
		if held != want || test.want == admin.Imported && expires != ends {
			t.Errorf("%s: the key holds %q until %s, not %q until %s", test.what, held, expires, want, ends)
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

// A user without rights to the keys beside limits decides as ever, and is told what is missing
// when a token, denials or overrides need it. Nothing is charged then.
func TestWithoutTheRightToKeysBesideTheLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := as(server, "~rl:*", "+@all")
	backend := newStore(t, redis.NewClient(&options))
	defer backend.Close()
	req := store.Request{Key: store.Key{Subject: "a", Name: "n"}, Limit: yearly(5), Cost: 1}
	decideOne(t, backend, store.Take, req)
	decideOne(t, backend, store.Charge, req)
	req.Token = "order-1"
	for _, op := range []store.Op{store.Take, store.Charge, store.Settle, store.TakeUpTo, store.Peek} {
		err := backend.Decide(ctx, op, []store.Request{req}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "rl!") {
			t.Errorf("%s with a token: %v", op, err)
		}
	}
	_, _, listing := backend.Overrides(ctx)
	for what, err := range map[string]error{"denials": backend.AddDenials(ctx, oneDenial), "overrides": listing} {
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "rl!") {
			t.Errorf("%s: %v", what, err)
		}
	}
	req.Token = ""
	if d := decideOne(t, backend, store.Peek, req); d.Used != 2 {
		t.Errorf("after refusals %d are used", d.Used)
	}
}

// What somebody else keeps under a token's key stays as it is.
func TestTokenKeyThatIsForeign(t *testing.T) {
	t.Parallel()
	client := socketClient(t, redistest.Start(t))
	backend := newStore(t, client)
	req := store.Request{Key: store.Key{Subject: "a", Name: "n"}, Limit: yearly(5), Cost: 1, Token: "t",
		TokenTTL: time.Minute}
	decideOne(t, backend, store.Take, req) // which makes a key that ends by itself
	if ttl := client.PTTL(ctx, "rl!token:t").Val(); ttl <= 0 || ttl > time.Minute+time.Millisecond {
		t.Errorf("the token expires after %v", ttl)
	}
	client.Del(ctx, "rl:{a}:n")
	for _, plant := range []func(){
		func() { client.Set(ctx, "rl!token:t", "hello", 0) },
		func() { client.Set(ctx, "rl!token:t", "RT\x02"+strings.Repeat("x", 60), 0) },
		func() { client.LPush(ctx, "rl!token:t", "hello") },
	} {
		client.Del(ctx, "rl!token:t")
		plant()
		before := client.Dump(ctx, "rl!token:t").Val()
		err := backend.Decide(ctx, store.Take, []store.Request{req}, make([]store.Decision, 1))
		if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "rl!token:t") {
			t.Errorf("a foreign token: %v", err)
		}
		if client.Dump(ctx, "rl!token:t").Val() != before || client.Exists(ctx, "rl:{a}:n").Val() != 0 {
			t.Errorf("it was changed, or something was charged")
		}
	}
}

func newStore(t testing.TB, client redis.UniversalClient, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	backend, err := redisstore.Own(client, options...)
	must(t, err)
	return backend
}

func decideOne(t *testing.T, backend store.Store, op store.Op, req store.Request) store.Decision {
	t.Helper()
	return decided(t, backend, op, []store.Request{req})[0]
}
