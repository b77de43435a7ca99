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

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// hold stands in the line of the file, as another process does that writes, until the
// function it returns is called.
func hold(t *testing.T, path string) (release func()) {
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

// Whoever waits in line leaves when its own time is over, and another one goes on waiting.
func TestWaitingInLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u"}
	if err := take(backend, key, hour, 1); err != nil {
		t.Fatal(err)
	}
	release := hold(t, path)
	patient := make(chan error)
	go func() { patient <- take(backend, key, hour, 1) }()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := storecall.New(backend).Take(ctx, key, hour, 1)
		if !errors.Is(err, store.ErrGaveUp) || store.IsAway(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrGaveUp that names the file", err)
		}
		cancel()
		_, err = storecall.New(store.WithBudget(backend, 20*time.Millisecond)).Take(context.Background(), key, hour, 1)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrGaveUp) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrUnavailable that names the file", err)
		}
	}
	if d, err := storecall.New(backend).Peek(context.Background(), key, hour, 1); err != nil || d.Used != 1 {
		t.Errorf("a peek: %+v, %v; want 1 used", d, err)
	}
	release()
	if err := <-patient; err != nil {
		t.Error(err)
	}
	if d, err := storecall.New(backend).Peek(context.Background(), key, hour, 1); err != nil || d.Used != 2 {
		t.Errorf("at last: %+v, %v; want 2 used", d, err)
	}
}

// A Store can be closed while it waits in line, and who waits is told before another process is done.
func TestClosingInLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	if err := take(backend, store.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	release := hold(t, path)
	waiting := make(chan error)
	go func() { waiting <- take(backend, store.Key{Subject: "u"}, hour, 1) }()
	until(t, "it waits", func() bool { return backend.Waiting() > 0 })
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	release()
	if d, err := storecall.New(open(t, path)).Peek(context.Background(), store.Key{Subject: "u"}, hour, 1); err != nil || d.Used != 1 {
		t.Errorf("%+v, %v; want 1 used", d, err)
	}
}

// A process that is stopped, wherever it is then, costs others at most their deadlines.
func TestAStoppedProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	own := 0
	for round := range 10 {
		cmd, lines := startTaker(t, path)
		for range 5 + round {
			lines.Scan()
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			redistest.Patiently(t, 20*time.Millisecond, func(timeout time.Duration) (missing error) {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				_, err := storecall.New(backend).Take(ctx, shared, sharedLimit, 1)
				switch {
				case err == nil:
					own++
				case errors.Is(err, store.ErrOutcomeUnknown): // the disk is slower than that
					return err
				case !errors.Is(err, store.ErrGaveUp): // it was let go by its own patience
					t.Errorf("round %d: %v", round, err)
				}
				return nil
			})
		}
		if err := errors.Join(cmd.Process.Kill(), cmd.Process.Signal(syscall.SIGCONT)); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		cmd.Wait()
		if err := take(backend, shared, sharedLimit, 1); err != nil {
			t.Errorf("round %d: after its end: %v", round, err)
		}
		own++
	}
	d, err := storecall.New(backend).Peek(context.Background(), shared, sharedLimit, 1)
	if err != nil || d.Used < int64(own) {
		t.Errorf("%+v, %v; %d units were taken here alone", d, err, own)
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
