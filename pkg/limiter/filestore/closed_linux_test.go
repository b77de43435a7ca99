package filestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// openFiles returns which files this process has open whose names begin with path.
func openFiles(t *testing.T, path string) (names []string) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name, err := os.Readlink(filepath.Join(descriptors, entry.Name())); err == nil && strings.HasPrefix(name, path) {
			names = append(names, name)
		}
	}
	return names
}

// A store that is closed leaves no file open, and opens none again.
func TestAClosedStoreOpensNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	ask := func() error {
		_, peeked := storecall.New(backend).Peek(context.Background(), store.Key{Subject: "u"}, hour, 1)
		return errors.Join(take(backend, store.Key{Subject: "u"}, hour, 1), peeked)
	}
	if err := ask(); err != nil || len(openFiles(t, path)) == 0 {
		t.Fatalf("%v, open: %v", err, openFiles(t, path))
	}
	if err := backend.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := ask(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("a closed store answers %v", err)
		}
	}
	until(t, "the writer is gone", func() bool { return !backend.HasWriter() })
	if names := openFiles(t, path); len(names) > 0 {
		t.Errorf("a closed store has open: %v", names)
	}
}

// Calls that wait for a file that another program has locked are told at once when the store is
// closed, and charge nothing afterwards.
func TestClosingEndsCallsThatWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	if err := take(backend, store.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	other := raw(t, path)
	defer other.Close()
	locker, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locker.Exec("DELETE FROM limits WHERE false"); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	for range cap(results) {
		go func() { results <- take(backend, store.Key{Subject: "u"}, hour, 1) }()
	}
	until(t, "both wait", func() bool { return backend.Waiting() == cap(results) })
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	for range cap(results) {
		if err := <-results; !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
			t.Errorf("a call that waited: %v", err)
		}
	}
	if err := locker.Rollback(); err != nil {
		t.Fatal(err)
	}
	if d, err := storecall.New(open(t, path)).Peek(context.Background(), store.Key{Subject: "u"}, hour, 1); err != nil || d.Used != 1 {
		t.Errorf("%+v, %v; want 1 used", d, err)
	}
}
