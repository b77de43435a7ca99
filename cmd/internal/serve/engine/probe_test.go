package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// A breaker closes when the store is back, also while nobody calls, and nothing is charged for that.
func TestABreakerClosesWithoutCalls(t *testing.T) {
	store := &away{Keyspace: memorystore.New()}
	store.gone.Store(true)
	closed := make(chan struct{})
	e := newEngine(t, store, strings.ReplaceAll(localFile, "1h", "1ms"), Options{OnBreaker: func(c limiter.BreakerChange) {
		if c.To == limiter.BreakerClosed {
			close(closed)
		}
	}})
	allowed(t, e, ip("a"))
	store.gone.Store(false)
	for probed := 0; ; probed++ {
		e.Probe(t.Context(), probed%2 == 1)
		select {
		case <-closed:
		case <-time.After(time.Millisecond):
			continue
		}
		break
	}
	all, err := limiter.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	for entry, err := range store.Scan(t.Context(), limiter.Query{Subjects: all}) {
		t.Errorf("%v is there: %v", entry.Key, err)
	}
}
