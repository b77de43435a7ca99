package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// clearStore deletes everything, if the store can.
func clearStore(backend store.Store) {
	keyspace, has := admin.KeyspaceOf(backend)
	if !has {
		return
	}
	var keys []store.Key
	pattern, _ := store.ParsePattern("*")
	for entry := range keyspace.Scan(context.Background(), admin.Query{Subjects: pattern}) {
		keys = append(keys, entry.Key)
	}
	_, _, _ = keyspace.Delete(context.Background(), admin.Records(keys...)...)
}

// keptUntilUnused checks that by the store's own clock a key that was charged above its capacity stays until its reset
// and not much longer, and is found, deleted and brought back.
func keptUntilUnused(t *testing.T, h Harness, kind store.Kind) {
	keys := h.newKeys(t, nil)
	ctx, limit := context.Background(), LimitOf(kind, 10, time.Minute)
	req := store.Request{Key: store.Key{Subject: "kept", Name: "limit"}, Limit: limit, Cost: 30}
	if err := keys.Decide(ctx, store.Charge, []store.Request{req}, make([]store.Decision, 1)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, again := range []bool{false, true} {
		var found []admin.Entry
		for entry, err := range keys.Scan(ctx, admin.Query{Subjects: exactly(t, "kept"), Records: true}) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, entry)
		}
		if len(found) != 1 || found[0].Used < 15 { // a bucket leaks
			t.Fatalf("(again: %v) found %+v", again, found)
		}
		apart := time.Since(begin) + time.Millisecond // of the instants of both
		if late := found[0].TTL - found[0].ResetAfter; late < -apart || late > apart+time.Millisecond {
			t.Errorf("reset after %s, but kept for %s", found[0].ResetAfter, found[0].TTL)
		}
		if again {
			return
		}
		if deleted, _, err := keys.Delete(ctx, found[0].Record); deleted != 1 || err != nil {
			t.Fatalf("%d deleted, %v", deleted, err)
		}
		if outcomes, err := keys.Import(ctx, false, found[0].Record); err != nil || outcomes[0] != admin.Imported {
			t.Fatalf("imported %v, %v", outcomes, err)
		}
	}
}

// invalidLimitsAreErrors checks that no operation takes an invalid limit or key, and that none writes.
func invalidLimitsAreErrors(t *testing.T, h Harness, kind store.Kind) {
	backend, limit := h.New(t, nil), LimitOf(kind, 10, time.Minute)
	before := h.dump(t, backend)
	for _, op := range []store.Op{store.Take, store.Peek, store.Refund, store.Adjust, store.Charge, store.TakeUpTo} {
		fails := func(reqs ...store.Request) {
			t.Helper()
			err := backend.Decide(context.Background(), op, reqs, make([]store.Decision, len(reqs)))
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s %v: got error %v, want one that is ErrInvalid", op, reqs, err)
			}
		}
		for _, broken := range []store.Limit{
			{Count: 0, Period: limit.Period},
			{Count: 1, Period: 0},
			{Count: 1, Period: time.Millisecond + time.Nanosecond},
			{Count: 1, Period: limit.Period, Burst: -1},
			{Count: 1, Period: time.Second, Slices: 7},
		} {
			broken.Algorithm = limit.Algorithm
			fails(store.Request{Key: store.Key{Subject: "a", Name: "limit"}, Limit: broken, Cost: 1})
		}
		fails()
		fails(store.Request{Key: store.Key{Subject: "a{b", Name: "limit"}, Limit: limit, Cost: 1})
		twice := store.Request{Key: store.Key{Subject: "a", Name: "limit"}, Limit: limit, Cost: 1}
		fails(twice, twice)
	}
	if after := h.dump(t, backend); after != before {
		t.Errorf("invalid requests changed the store\nfrom %s\nto   %s", before, after)
	}
}
