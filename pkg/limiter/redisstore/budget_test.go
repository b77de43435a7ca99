package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Callers that wait together under [store.WithBudget] are told that the store is away when its
// time is over, and those that leave before that they gave up.
func TestTheBudgetOfACrowdIsKept(t *testing.T) {
	server := redistest.Start(t)
	backend := openPatient(t, server)
	must(t, takingOf(backend)(context.Background(), 0))
	server.Pause()
	alone := enter(lanes.InFlight, takingOf(backend)) // so that others wait
	awaitState(backend, "", lanes.InFlight, 0)
	const many = 100
	short := enter(many, takingOf(store.WithBudget(backend, 20*time.Millisecond)))
	long := enter(many, takingOf(store.WithBudget(backend, forever)))
	hurried, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	hasty := enterWith(hurried, cancel, many, takingOf(store.WithBudget(backend, forever)))
	for _, err := range short.wait() {
		if !store.IsAway(err) || errors.Is(err, store.ErrGaveUp) {
			t.Fatalf("the store's time was over: %v", err)
		}
	}
	for _, err := range hasty.wait() {
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
			t.Fatalf("the caller's time was over: %v", err)
		}
	}
	for _, err := range long.left() {
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.Canceled) || store.IsAway(err) {
			t.Fatalf("the caller left: %v", err)
		}
	}
	server.Resume()
	alone.wait()
}
