package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// identity runs the laws of an [admin.Identity], if the stores have one: reading it writes nothing, all callers get
// the same id, and other stores have other ids.
func identity(t *testing.T, h Harness) {
	ctx := context.Background()
	backend := h.New(t, nil)
	of, has := admin.IdentityOf(backend)
	if !has {
		return
	}
	before := h.dump(t, backend)
	if id, err := of.StoreID(ctx); err != nil || id != "" || h.dump(t, backend) != before {
		t.Fatalf("a new store has the id %q (%v), and holds\n%s", id, err, h.dump(t, backend))
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
		if id != ids[0] || !admin.IsStoreID(id) {
			t.Fatalf("of several at once one gets the id %q and another %q", id, ids[0])
		}
	}
	if id, err := of.StoreID(ctx); err != nil || id != ids[0] {
		t.Errorf("its id is %q (%v), and was made as %q", id, err, ids[0])
	}
	everything, _ := store.ParsePattern("*")
	for entry, err := range scan(ctx, backend, admin.Query{Subjects: everything}) {
		t.Errorf("a scan finds %v (%v) in a store with nothing but an id", entry.Key, err)
	}
	other, _ := admin.IdentityOf(h.New(t, nil))
	if id, err := other.EnsureStoreID(ctx); err != nil || id == ids[0] {
		t.Errorf("another store has the id %q (%v), too", id, err)
	}
}
