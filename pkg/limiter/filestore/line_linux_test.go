package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hold stands in the line of the file, as another process does that writes, until the
// function it returns is called.
func hold(t testing.TB, path string) (release func()) {
	t.Helper()
	file, err := os.OpenFile(path+"-lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1}); err != nil {
		t.Fatal(err)
	}
	return func() { file.Close() }
}

// The ways in which another process keeps the file from being written.
var holds = map[string]func(testing.TB, string) func(){"in line": hold, "at SQLite's lock": locked}

// Whoever waits leaves when its own time is over, with nothing charged, and another one goes on waiting.
func TestWaitingForAFile(t *testing.T) {
	for where, held := range holds {
		path := filepath.Join(t.TempDir(), "limits.db")
		backend := open(t, path)
		key := store.Key{Subject: "u"}
		if err := take(backend, key, hour, 1); err != nil {
			t.Fatal(err)
		}
		release := held(t, path)
		patient := make(chan error)
		go func() { patient <- take(backend, key, hour, 1) }()
		until(t, "it waits", func() bool { return backend.Waiting() > 0 })
		for range 2 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			_, err := storecall.New(backend).Take(ctx, key, hour, 1)
			if !errors.Is(err, store.ErrGaveUp) || !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s: got %v, want an ErrGaveUp that names the file", where, err)
			}
			cancel()
			err = take(store.WithBudget(backend, 20*time.Millisecond), key, hour, 1)
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s: got %v, want an ErrUnavailable that names the file", where, err)
			}
		}
		if n := used(t, backend, key); n != 1 {
			t.Errorf("%s: %d are used, want 1", where, n)
		}
		release()
		if err := <-patient; err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if n := used(t, backend, key); n != 2 {
			t.Errorf("%s: at last %d are used, want 2", where, n)
		}
	}
}

// The writer stops trying a locked file when the last caller leaves. Who comes at that moment waits as others do.
func TestWhoComesAsTheLastOneLeavesWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u", Name: "limit"}
	if err := take(backend, key, hour, 1); err != nil {
		t.Fatal(err)
	}
	release := locked(t, path)
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, err := storecall.New(backend).Take(ctx, key, hour, 1)
		cancel()
		if !errors.Is(err, store.ErrGaveUp) {
			t.Fatalf("got %v, want an ErrGaveUp", err)
		}
	}
	release()
	if err := take(backend, key, hour, 1); err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
}

// Calls that wait are told at once when the store is closed, and charge nothing afterwards.
func TestClosingEndsCallsThatWait(t *testing.T) {
	for where, held := range holds {
		path := filepath.Join(t.TempDir(), "limits.db")
		backend := open(t, path)
		key := store.Key{Subject: "u"}
		if err := take(backend, key, hour, 1); err != nil {
			t.Fatal(err)
		}
		release := held(t, path)
		results := make(chan error, 2)
		for range cap(results) {
			go func() { results <- take(backend, key, hour, 1) }()
		}
		until(t, "both wait", func() bool { return backend.Waiting() == cap(results) })
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		for range cap(results) {
			if err := <-results; !errors.Is(err, store.ErrClosed) || store.IsAway(err) {
				t.Errorf("%s: a call that waited: %v", where, err)
			}
		}
		release()
		if n := used(t, open(t, path), key); n != 1 {
			t.Errorf("%s: %d are used, want 1", where, n)
		}
	}
}

// Who may not open the file of the line goes without it.
func TestWithoutALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	if err := take(backend, store.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(backend.Close(), os.Chmod(path+"-lock", 0)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		beNobody(t, path)
	}
	if file, err := os.OpenFile(path+"-lock", os.O_RDWR, 0); !errors.Is(err, fs.ErrPermission) {
		file.Close()
		t.Fatalf("the file can be opened: %v", err)
	}
	if err := take(open(t, path), store.Key{Subject: "u"}, hour, 1); err != nil {
		t.Error(err)
	}
}

// beNobody lets root be bound by modes until the test ends: this process acts for a user who has
// the file of limits and its directories.
func beNobody(t *testing.T, path string) {
	t.Helper()
	const nobody = 65534
	dir := filepath.Dir(path)
	if err := errors.Join(os.Chown(filepath.Dir(dir), nobody, -1), os.Chown(dir, nobody, -1), os.Chown(path, nobody, -1),
		syscall.Setreuid(-1, nobody)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setreuid(-1, 0); err != nil {
			panic(err) // no other test knows that it is nobody
		}
	})
}

// openFiles returns which files this process has open whose names begin with path.
func openFiles(t *testing.T, path string) (names []string) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name, err := os.Readlink(filepath.Join(descriptors, entry.Name()))
		if err == nil && strings.HasPrefix(name, path) {
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
