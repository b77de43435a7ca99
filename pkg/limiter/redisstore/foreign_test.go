package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
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

// Whatever meets a value of another program says what it is, and leaves it.
func TestErrorsTellWhatAValueIs(t *testing.T) {
	server := redistest.Start(t)
	backend := newStore(t, server.Client())
	limit, err := store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute}.Normalize()
	must(t, err)
	key := store.Key{Subject: "u", Name: "n"}
	traefikBucket(server, "rl:{u}:n")
	before := fmt.Sprint(server.Do("DUMP", "rl:{u}:n"))
	request := []store.Request{{Key: key, Limit: limit, Cost: 1}}
	tokened := []store.Request{{Key: key, Limit: limit, Cost: 1, Token: "t", TokenTTL: time.Minute}}
	decide := func(op store.Op, reqs []store.Request) error {
		return backend.Decide(ctx, op, reqs, make([]store.Decision, len(reqs)))
	}
	for name, do := range map[string]func() error{
		"take":              func() error { return decide(store.Take, request) },
		"peek":              func() error { return decide(store.Peek, request) },
		"refund":            func() error { return decide(store.Refund, request) },
		"take with a token": func() error { return decide(store.Take, tokened) },
		"two limits": func() error {
			return decide(store.Take, append(request, store.Request{Key: store.Key{Subject: "u", Name: "m"}, Limit: limit, Cost: 1}))
		},
		"delete": func() error { _, _, err := backend.Delete(ctx, admin.Records(key)...); return err },
		"adjust": func() error {
			_, err := backend.Adjust(ctx, admin.Adjustment{Key: key, Limit: limit, Used: 1})
			return err
		},
		"scan": func() error {
			for _, err := range backend.Scan(ctx, admin.Query{Subjects: exactly(t, "u")}) {
				return err
			}
			return nil
		},
	} {
		var foreign *store.ForeignError
		if err := do(); !errors.As(err, &foreign) || foreign.StoreKey != "rl:{u}:n" || foreign.Holds != aHash {
			t.Errorf("%s: got error %v, want one about %s", name, err, aHash)
		}
	}
	if after := fmt.Sprint(server.Do("DUMP", "rl:{u}:n")); after != before {
		t.Error("the value has changed")
	}
}

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
