package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func foreignDataIsNotTouched(t *testing.T, h Harness, kind store.Kind) {
	if h.Plant == nil {
		return // no other process can write to it
	}
	ctx := context.Background()
	backend := h.New(t, nil)
	limit := LimitOf(kind, 10, time.Minute)
	// A record of limitctl, to be damaged.
	own := store.State{}
	normalized, _ := limit.Normalize()
	own.Charge(normalized, 3, store.InstantOf(epoch))
	record := string(own.AppendRecord(nil))
	for name, value := range map[string]string{
		"text":        "hello",
		"empty":       "",
		"short":       record[:len(record)-1],
		"long":        record + "x",
		"version":     record[:2] + "\x09" + record[3:],
		"algorithm":   record[:3] + "\x09" + record[4:],
		"zero-count":  record[:4] + "\x00\x00\x00\x00" + record[8:],
		"huge-count":  record[:4] + "\xff\xff\xff\xff" + record[8:],
		"zero-burst":  record[:8] + "\x00\x00\x00\x00" + record[12:], // or slices
		"zero-period": record[:12] + "\x00\x00\x00\x00\x00\x00\x00" + record[19:],
		"huge-period": record[:12] + "\xff\xff\xff\xff\xff\xff\xff" + record[19:],
		"far-future":  record[:19] + "\x40\x00\x00\x00\x00\x00\x00" + record[26:],
		"huge-usage":  record[:26] + "\xff\xff\xff\xff" + record[30:],
	} {
		key := store.Key{Subject: "foreign", Name: name}
		intact := h.Plant(t, backend, key, value)
		for _, op := range []store.Op{store.Take, store.Peek, store.Refund} {
			good := store.Request{Key: store.Key{Subject: "foreign", Name: "good"}, Limit: limit, Cost: 1}
			foreign := store.Request{Key: key, Limit: limit, Cost: 1}
			err := backend.Decide(ctx, op, []store.Request{good, foreign}, make([]store.Decision, 2))
			var named *store.ForeignError
			if !errors.As(err, &named) || !errors.Is(err, store.ErrForeign) {
				t.Errorf("%s of a key holding %s: got error %v, want a ForeignError", op, name, err)
			} else if want := h.storeKey(backend, key); named.StoreKey != want {
				t.Errorf("%s of a key holding %s: the error names %q, want %q", op, name, named.StoreKey, want)
			}
		}
		if keys, has := admin.KeyspaceOf(backend); has && (name == "text" || name == "empty") {
			// A value that begins like a record can be deleted, even if it is damaged.
			if _, _, err := keys.Delete(ctx, admin.Record{Key: key}); !errors.Is(err, store.ErrForeign) {
				t.Errorf("deleting a key holding %s: got error %v, want a ForeignError", name, err)
			}
		}
		if !intact() {
			t.Errorf("the value %q (%s) was touched", value, name)
		}
	}
	good, err := storecall.New(backend).Peek(ctx, store.Key{Subject: "foreign", Name: "good"}, limit, 1)
	if err != nil || good.Used != 0 {
		t.Errorf("a key decided together with a foreign one: %+v, %v; want it unused", good, err)
	}
}
