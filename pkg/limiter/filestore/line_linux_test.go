package filestore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limitctl/limitctl/pkg/limiter"
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
	store := open(t, path)
	key := limiter.Key{Subject: "u"}
	if err := take(store, key, hour, 1); err != nil {
		t.Fatal(err)
	}
	release := hold(t, path)
	patient := make(chan error)
	go func() { patient <- take(store, key, hour, 1) }()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := limiter.New(store).Take(ctx, key, hour, 1)
		if !errors.Is(err, limiter.ErrGaveUp) || limiter.IsAway(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrGaveUp that names the file", err)
		}
		cancel()
		_, err = limiter.New(limiter.WithBudget(store, 20*time.Millisecond)).Take(context.Background(), key, hour, 1)
		if !errors.Is(err, limiter.ErrUnavailable) || errors.Is(err, limiter.ErrGaveUp) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want an ErrUnavailable that names the file", err)
		}
	}
	if d, err := limiter.New(store).Peek(context.Background(), key, hour, 1); err != nil || d.Used != 1 {
		t.Errorf("a peek: %+v, %v; want 1 used", d, err)
	}
	release()
	if err := <-patient; err != nil {
		t.Error(err)
	}
	if d, err := limiter.New(store).Peek(context.Background(), key, hour, 1); err != nil || d.Used != 2 {
		t.Errorf("at last: %+v, %v; want 2 used", d, err)
	}
}

// A Store can be closed while it waits in line, and goes on after that.
func TestClosingInLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	store := open(t, path)
	if err := take(store, limiter.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	release := hold(t, path)
	waiting := make(chan error)
	go func() { waiting <- take(store, limiter.Key{Subject: "u"}, hour, 1) }()
	for store.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	release()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// A process that is stopped, wherever it is then, costs others at most their deadlines.
func TestAStoppedProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	store := open(t, path)
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
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			start := time.Now()
			_, err := limiter.New(store).Take(ctx, shared, sharedLimit, 1)
			if err == nil {
				own++
			} else if !errors.Is(err, limiter.ErrGaveUp) || errors.Is(err, limiter.ErrOutcomeUnknown) {
				t.Errorf("round %d: %v", round, err)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("round %d: it took %s", round, took)
			}
			cancel()
		}
		if err := errors.Join(cmd.Process.Kill(), cmd.Process.Signal(syscall.SIGCONT)); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		cmd.Wait()
		if err := take(store, shared, sharedLimit, 1); err != nil {
			t.Errorf("round %d: after its end: %v", round, err)
		}
		own++
	}
	d, err := limiter.New(store).Peek(context.Background(), shared, sharedLimit, 1)
	if err != nil || d.Used < int64(own) {
		t.Errorf("%+v, %v; %d units were taken here alone", d, err, own)
	}
}

// Who may not make the file of the line goes without it.
func TestWithoutALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	store := open(t, path)
	if err := take(store, limiter.Key{Subject: "u"}, hour, 1); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Close(), os.Chmod(path+"-lock", 0)); err != nil {
		t.Fatal(err)
	}
	if err := take(store, limiter.Key{Subject: "u"}, hour, 1); err != nil {
		t.Error(err)
	}
}
