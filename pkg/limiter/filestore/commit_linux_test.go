package filestore_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// full lets the log of changes of a file grow no more, as on a disk that fails, until the function it
// returns is called. What has not been written by then is written by COMMIT, which fails.
func full(t *testing.T, path string) (release func()) {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() == 0 {
		t.Fatal("there is no log of changes: ", err)
	}
	return fullAt(t, uint64(info.Size()))
}

// fullAt lets no file grow beyond a size, until the function it returns is called.
func fullAt(t *testing.T, size uint64) (release func()) {
	t.Helper()
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &before))
	signal.Ignore(syscall.SIGXFSZ) // so that writing fails instead
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}))
	return func() {
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	}
}

// Whether a COMMIT that fails has written anything is not known, so nobody is told that nothing was
// charged, and nothing is done again.
func TestACommitThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	backend := open(t, path)
	key := store.Key{Subject: "u", Name: "n"}
	must(t, take(backend, key, hour, 1))
	unknown := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrUnavailable) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an ErrOutcomeUnknown that names the file", what, err)
		}
	}
	func() {
		defer full(t, path)()
		unknown("a take alone", take(backend, key, hour, 1))
		_, err := backend.SetOverride(context.Background(), store.Override{Effect: store.OverrideBlock}, time.Hour)
		unknown("an override", err)
		unknown("denials", backend.AddDenials(context.Background(), admin.Denials{Others: 1}))
	}()
	if d, err := storecall.New(backend).Take(context.Background(), key, hour, 1); err != nil || d.Used != 2 {
		t.Errorf("once it can be written: %+v, %v; want 2 used", d, err)
	}
}

// A file that cannot grow is said to be on a full disk, and takes again once there is room.
func TestAFullDiskIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	key := store.Key{Subject: "u", Name: "n"}
	first := open(t, path)
	must(t, errors.Join(take(first, key, hour, 1), first.Close()))
	backend := open(t, path)
	release := fullAt(t, 1000)
	err := take(backend, key, hour, 1)
	release()
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), path+" cannot grow; is its disk full?") {
		t.Errorf("without room: %v", err)
	}
	if err := take(backend, key, hour, 1); err != nil {
		t.Errorf("with room: %v", err)
	}
}
