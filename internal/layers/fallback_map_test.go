package layers

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A fallback store removes unused keys, so that ever new subjects in a long outage do not fill the memory.
func TestAFallbackStoreForgetsUnusedKeys(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	fallback := newFallbackMap(func() time.Time { return now })
	most, denied := 0, 0
	for i := range 100_000 {
		now = now.Add(time.Millisecond)
		req := store.Request{Key: store.Key{Subject: strconv.Itoa(i / 2)}, Limit: store.Limit{Count: 1, Period: time.Second}, Cost: 1}
		var decisions [1]store.Decision
		if err := fallback.Decide(context.Background(), store.Take, []store.Request{req}, decisions[:]); err != nil {
			t.Fatal(err)
		}
		if !decisions[0].Allowed {
			denied++
		}
		most = max(most, len(fallback.states))
	}
	// 500 subjects are in use at a time.
	if most < 500 || most > 1500 {
		t.Errorf("up to %d keys were held", most)
	}
	if denied != 50_000 {
		t.Errorf("%d were denied; want each second one, while its key is in use", denied)
	}
}
