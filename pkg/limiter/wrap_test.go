package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// A wrapper, and a wrapper around that, decide by themselves and have the keys of the
// store inside. Around a store without keys there are none.
func TestAWrapperKeepsTheKeyspace(t *testing.T) {
	ctx := context.Background()
	store := memorystore.New()
	denied := 0
	wrapped := limiter.WithFailurePolicy(withCount(store, &denied), limiter.AllowOnError, nil)
	once := limiter.Limit{Count: 1, Period: time.Hour}
	key := limiter.Key{Subject: "user:42", Name: "once"}
	for range 3 {
		if _, err := limiter.New(wrapped).Take(ctx, key, once, 1); err != nil {
			t.Fatal(err)
		}
	}
	if denied != 2 {
		t.Errorf("the wrapper inside saw %d denials, want 2", denied)
	}
	keyspace, has := wrapped.(limiter.Keyspace)
	if !has {
		t.Fatal("the wrapped store has no keyspace")
	}
	var records []limiter.Record
	for entry, err := range keyspace.Scan(ctx, limiter.Query{Keys: []limiter.Key{key}, Records: true}) {
		if err != nil || entry.Key != key || entry.Decision.Used != 1 {
			t.Errorf("found %+v, %v", entry, err)
		}
		records = append(records, entry.Record)
	}
	if deleted, changed, err := keyspace.Delete(ctx, records...); deleted != 1 || len(changed) > 0 || err != nil {
		t.Errorf("deleted %d, changed %v, %v", deleted, changed, err)
	}
	outcomes, err := keyspace.Import(ctx, false, records...)
	if err != nil || len(outcomes) != 1 || outcomes[0] != limiter.Imported {
		t.Errorf("imported %v, %v", outcomes, err)
	}
	if d, err := limiter.New(store).Peek(ctx, key, once, 1); err != nil || d.Used != 1 {
		t.Errorf("the store inside has %d in use, %v", d.Used, err)
	}

	if _, has := limiter.WithFailurePolicy(awayStore{}, limiter.AllowOnError, nil).(limiter.Keyspace); has {
		t.Error("around a store without keys there is a keyspace")
	}
}

// A wrapper that has keys of its own, such as one that refuses to delete, keeps those.
func TestAWrapperWithKeysOfItsOwnKeepsThem(t *testing.T) {
	own := memorystore.New()
	if got := limiter.KeepKeyspace(own, memorystore.New()); got != limiter.Store(own) {
		t.Errorf("it became a %T", got)
	}
}
