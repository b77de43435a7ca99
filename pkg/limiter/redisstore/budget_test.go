package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// Callers that wait together under [limiter.WithBudget] are told that the store is away when its
// time is over, and those that leave before that they gave up.
func TestTheBudgetOfACrowdIsKept(t *testing.T) {
	server := redistest.Start(t)
	store := openPatient(t, server)
	if err := takingOf(store)(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	alone := enter(inFlight, takingOf(store)) // so that others wait
	store.sender.single.awaitState(inFlight, 0)
	const many = 100
	short := enter(many, takingOf(limiter.WithBudget(store, 20*time.Millisecond)))
	long := enter(many, takingOf(limiter.WithBudget(store, forever)))
	hurried, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	hasty := enterWith(hurried, cancel, many, takingOf(limiter.WithBudget(store, forever)))
	for _, err := range short.wait() {
		if !limiter.IsAway(err) || errors.Is(err, limiter.ErrGaveUp) {
			t.Fatalf("the store's time was over: %v", err)
		}
	}
	for _, err := range hasty.wait() {
		if !errors.Is(err, limiter.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || limiter.IsAway(err) {
			t.Fatalf("the caller's time was over: %v", err)
		}
	}
	for _, err := range long.left() {
		if !errors.Is(err, limiter.ErrGaveUp) || !errors.Is(err, context.Canceled) || limiter.IsAway(err) {
			t.Fatalf("the caller left: %v", err)
		}
	}
	server.Resume()
	alone.wait()
}
