package filestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Whoever waits leaves when its own time is over, with nothing charged, and another one goes on waiting.
func TestWaitingForAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u"}
	if err := take(backend, key, hour, 1); err != nil {
		t.Fatal(err)
	}
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
	if err := take(backend, key, hour, 1); err != nil {
		t.Fatal(err)
	}
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
