package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// identity runs the laws of a [limiter.Identity], if the stores have one: reading it writes
// nothing, all get the same one, and other stores get others.
func identity(t *testing.T, h Harness) {
	ctx := context.Background()
	store := h.New(t, nil)
	of, has := limiter.IdentityOf(store)
	if !has {
		return
	}
	before := h.dump(t, store)
	if id, err := of.StoreID(ctx); err != nil || id != "" || h.dump(t, store) != before {
		t.Fatalf("a new store has the id %q (%v), and holds\n%s", id, err, h.dump(t, store))
	}
	ids := make([]string, 20)
	var together sync.WaitGroup
	for i := range ids {
		together.Go(func() {
			var err error
			if ids[i], err = of.EnsureStoreID(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	for _, id := range ids {
		if id != ids[0] || !limiter.IsStoreID(id) {
			t.Fatalf("of several at once one gets the id %q and another %q", id, ids[0])
		}
	}
	if id, err := of.StoreID(ctx); err != nil || id != ids[0] {
		t.Errorf("its id is %q (%v), and was made as %q", id, err, ids[0])
	}
	everything, _ := limiter.ParsePattern("*")
	for entry, err := range scan(ctx, store, limiter.Query{Subjects: everything}) {
		t.Errorf("a scan finds %v (%v) in a store with nothing but an id", entry.Key, err)
	}
	other, _ := limiter.IdentityOf(h.New(t, nil))
	if id, err := other.EnsureStoreID(ctx); err != nil || id == ids[0] {
		t.Errorf("another store has the id %q (%v), too", id, err)
	}
}
