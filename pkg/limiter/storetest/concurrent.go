package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	goroutines = 64
	attempts   = 20 // of each goroutine
	hotCount   = 1000
)

// concurrentTakesEqualASerialOrder takes from one key of 1000/1h with 64 goroutines. With a clock that stands still
// exactly 1000 are allowed; with the store's own clock also those that leak meanwhile.
func concurrentTakesEqualASerialOrder(t *testing.T, h Harness, kind store.Kind) {
	limit := LimitOf(kind, hotCount, time.Hour)

	still := h.New(t, func() time.Time { return epoch })
	if allowed := storm(t, still, limit); allowed != hotCount {
		t.Errorf("at one instant %d of %d takes were allowed, want %d", allowed, goroutines*attempts, hotCount)
	}

	running := h.New(t, nil)
	begin := time.Now()
	allowed := storm(t, running, limit)
	end := time.Now()
	most := int64(hotCount)
	switch {
	case kind.Algorithm().HasBurst():
		// A microsecond of rounding at each end, and the step of the clock.
		most += int64(end.Sub(begin)/(limit.Period/hotCount)) + 1
	case end.Truncate(limit.Period).After(begin.Truncate(limit.Period)):
		most *= 2 // a window ended meanwhile
	}
	if allowed < hotCount || allowed > most {
		t.Errorf("within %s %d takes were allowed, want %d to %d", end.Sub(begin), allowed, hotCount, most)
	}
}

func storm(t *testing.T, backend store.Store, limit store.Limit) int64 {
	t.Helper()
	l := storecall.New(backend)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for range attempts {
				d, err := l.Take(context.Background(), store.Key{Subject: "hot"}, limit, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	d, err := l.Peek(context.Background(), store.Key{Subject: "hot"}, limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d.Used > hotCount {
		t.Errorf("%d in use of %d", d.Used, hotCount)
	}
	return allowed.Load()
}
