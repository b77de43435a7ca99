package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A breaker closes when the store is back, even if nobody calls, and nothing is charged.
func TestABreakerClosesWithoutCalls(t *testing.T) {
	backend := &away{Keyspace: memorystore.New()}
	backend.gone.Store(true)
	closed := make(chan struct{})
	observer := limiter.Observer{OnBreaker: func(c limiter.BreakerChange) {
		if c.To == limiter.BreakerClosed {
			close(closed)
		}
	}}
	e := newEngine(t, backend, strings.ReplaceAll(localFile, "1h", "1ms"), Options{Observer: observer})
	allowed(t, e, ip(e, "a"))
	backend.gone.Store(false)
	for {
		e.CheckRecovery(t.Context())
		select {
		case <-closed:
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range backend.Scan(t.Context(), admin.Query{Subjects: all}) {
		t.Errorf("%v is there: %v", entry.Key, err)
	}
}
