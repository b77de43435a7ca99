package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A wrapper, and a wrapper around that, decide by themselves and have the keys of the
// store inside. Around a store without keys there are none.
func TestAWrapperKeepsTheKeyspace(t *testing.T) {
	ctx := context.Background()
	backend := memorystore.New()
	denied := 0
	wrapped := layers.Stack(withCount(backend, &denied), layers.Layers{Failure: layers.Failure{Policy: store.AllowOnError}})
	once := store.Limit{Count: 1, Period: time.Hour}
	key := store.Key{Subject: "user:42", Name: "once"}
	for range 3 {
		if _, err := storecall.New(wrapped).Take(ctx, key, once, 1); err != nil {
			t.Fatal(err)
		}
	}
	if denied != 2 {
		t.Errorf("the wrapper inside saw %d denials, want 2", denied)
	}
	keyspace, has := admin.KeyspaceOf(wrapped)
	if !has {
		t.Fatal("the wrapped store has no keyspace")
	}
	var records []admin.Record
	for entry, err := range keyspace.Scan(ctx, admin.Query{Keys: []store.Key{key}, Records: true}) {
		if err != nil || entry.Key != key || entry.Decision.Used != 1 {
			t.Errorf("found %+v, %v", entry, err)
		}
		records = append(records, entry.Record)
	}
	if deleted, changed, err := keyspace.Delete(ctx, records...); deleted != 1 || len(changed) > 0 || err != nil {
		t.Errorf("deleted %d, changed %v, %v", deleted, changed, err)
	}
	outcomes, err := keyspace.Import(ctx, false, records...)
	if err != nil || len(outcomes) != 1 || outcomes[0] != admin.Imported {
		t.Errorf("imported %v, %v", outcomes, err)
	}
	if d, err := storecall.New(backend).Peek(ctx, key, once, 1); err != nil || d.Used != 1 {
		t.Errorf("the store inside has %d in use, %v", d.Used, err)
	}

	open := layers.Layers{Failure: layers.Failure{Policy: store.AllowOnError}}
	if _, has := admin.KeyspaceOf(layers.Stack(struct{ store.Store }{}, open)); has {
		t.Error("around a store without keys there is a keyspace")
	}
}

// A wrapper that has keys of its own, such as one that refuses to delete, keeps those.
func TestAWrapperWithKeysOfItsOwnKeepsThem(t *testing.T) {
	own := memorystore.New()
	if got, _ := admin.KeyspaceOf(store.Wrap(own, memorystore.New())); got != admin.Keyspace(own) {
		t.Errorf("it became a %T", got)
	}
}
