package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Whoever waits leaves when its own time is over, with nothing charged, and another one goes on waiting.
func TestWaitingForAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u"}
	must(t, take(backend, key, hour, 1))
	release := locked(t, path)
	patient := make(chan error)
	go func() { patient <- take(backend, key, hour, 1) }()
	until(t, "it waits", backend.IsWriting)
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := storecall.New(backend).Take(ctx, key, hour, 1)
		if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrGaveUp that names the file", err)
		}
		cancel()
		err = take(store.WithBudget(backend, 20*time.Millisecond), key, hour, 1)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrUnavailable that names the file", err)
		}
	}
	if n := used(t, backend, key); n != 1 {
		t.Errorf("%d are used, want 1", n)
	}
	release()
	if err := <-patient; err != nil {
		t.Error(err)
	}
	if n := used(t, backend, key); n != 2 {
		t.Errorf("at last %d are used, want 2", n)
	}
}

// Calls that wait are told at once when the store is closed, and charge nothing afterwards.
func TestClosingEndsCallsThatWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u"}
	must(t, take(backend, key, hour, 1))
	release := locked(t, path)
	results := make(chan error, 2)
	for range cap(results) {
		go func() { results <- take(backend, key, hour, 1) }()
	}
	until(t, "one waits", backend.IsWriting)
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	for range cap(results) {
		if err := <-results; !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
			t.Errorf("a call that waited: %v", err)
		}
	}
	release()
	if n := used(t, open(t, path), key); n != 1 {
		t.Errorf("%d are used, want 1", n)
	}
}

// A call whose context has ended is not begun.
func TestAnEndedContext(t *testing.T) {
	backend := open(t, filepath.Join(t.TempDir(), "limits.db"))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	budget, cancel := store.BudgetContext(context.Background(), 0)
	defer cancel()
	_, err := storecall.New(backend).Take(ended, store.Key{Subject: "u"}, hour, 1)
	if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.Canceled) || store.IsAway(err) {
		t.Errorf("a take of a caller that left: %v", err)
	}
	for _, err := range backend.Scan(budget, admin.Query{}) {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) {
			t.Errorf("a scan out of budget: %v", err)
		}
	}
	if n := used(t, backend, store.Key{Subject: "u"}); n != 0 {
		t.Errorf("%d are used", n)
	}
}
