package memorystore_test

import (
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/limiter/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Sequences: 500,
		New: func(_ testing.TB, clock func() time.Time) store.Store {
			if clock == nil {
				return memorystore.New()
			}
			return memorystore.New(memorystore.WithClock(clock))
		},
		Dump: func(_ testing.TB, backend store.Store) string { return memorystore.Dump(backend.(*memorystore.Store)) },
	})
}
