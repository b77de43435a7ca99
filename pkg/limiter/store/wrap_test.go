package store_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A wrapper, and a wrapper around that, decide by themselves and have the keys of the store inside. Around a store
// without keys there are none.
func TestAWrapperKeepsTheKeyspace(t *testing.T) {
	backend, denied := memorystore.New(), 0
	open := layers.Layers{Failure: layers.Failure{Policy: store.AllowOnError}}
	wrapped := layers.Stack(withCount(backend, &denied), open)
	for range 3 {
		once := store.Limit{Count: 1, Period: time.Hour}
		if _, err := storecall.New(wrapped).Take(t.Context(), store.Key{Subject: "user:42"}, once, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got, has := admin.KeyspaceOf(wrapped); denied != 2 || !has || got != admin.Keyspace(backend) {
		t.Errorf("the wrapper inside saw %d denials, want 2, and the keys are %T", denied, got)
	}
	if _, has := admin.KeyspaceOf(layers.Stack(struct{ store.Store }{}, open)); has {
		t.Error("around a store without keys there is a keyspace")
	}
}
