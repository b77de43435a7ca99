package store_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// countingStore is a store around another, which counts denials. Whatever needs to see
// each decision can be built like it.
type countingStore struct {
	store.Store
	denied *int
}

// withCount returns backend with a count of its denials, through which the keys of backend can be reached.
func withCount(backend store.Store, denied *int) store.Store {
	return store.Wrap(&countingStore{Store: backend, denied: denied}, backend)
}

// Decide has the other store decide, and looks at the answer.
func (s *countingStore) Decide(ctx context.Context, op store.Op, reqs []store.Request,
	decisions []store.Decision) error {
	err := s.Store.Decide(ctx, op, reqs, decisions)
	if err == nil && op == store.Take && !store.AllAllowed(decisions) {
		*s.denied++
	}
	return err
}

// Your own store around another.
func ExampleStore() {
	denied := 0
	backend := withCount(memorystore.New(), &denied)
	limits, err := limiter.New(backend)
	if err != nil {
		log.Fatal(err)
	}
	login := limiter.Per("login", 1, time.Hour).For("user", "42")
	for range 5 {
		if _, err := limits.Take(context.Background(), login); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(denied, "denied")
	everybody, _ := store.ParsePattern("*")
	keys, _ := admin.KeyspaceOf(backend)
	for entry, err := range keys.Scan(context.Background(), admin.Query{Subjects: everybody}) {
		fmt.Println(entry.Key, entry.Decision.Used, "used", err)
	}
	// Output:
	// 4 denied
	// user:42 login 1 used <nil>
}
