//go:build unix

package filestore_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Subjects are in the file and in those that SQLite keeps beside it. Who wants to share a file makes it.
func TestModesOfFiles(t *testing.T) {
	for _, test := range []struct {
		umask    int
		made     fs.FileMode
		wantMode fs.FileMode
	}{{0, 0, 0o600}, {0o022, 0, 0o600}, {0o022, 0o660, 0o660}} {
		before := syscall.Umask(test.umask)
		defer syscall.Umask(before)
		path := filepath.Join(t.TempDir(), "limits.db")
		if test.made != 0 {
			must(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, test.made)))
		}
		must(t, take(open(t, path), store.Key{Subject: "user:42"}, hour, 1))
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != test.wantMode {
				t.Errorf("%+v: %s has %v, %v", test, name, info.Mode(), err)
			}
		}
		syscall.Umask(before)
	}
}

// A path that is misspelt makes no directory, in which everything would be unused. One that is asked for is its owner's
// alone.
func TestAFileInAMissingDirectory(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	directory := filepath.Join(t.TempDir(), "missing")
	path := filepath.Join(directory, "limits.db")
	err := take(open(t, path), store.Key{Subject: "user:42"}, hour, 1)
	if !errors.Is(err, store.ErrRefused) ||
		!strings.Contains(err.Error(), "there is no directory "+directory+"; make it") {
		t.Errorf("a take says %v", err)
	}
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is there, %v", err)
	}
	must(t, take(open(t, path, filestore.WithDirectory()), store.Key{Subject: "user:42"}, hour, 1))
	if info, err := os.Stat(directory); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has %v, %v", info, err)
	}
}

// Each in the place of the file, and of those beside it.
func TestWhatIsNoFile(t *testing.T) {
	plants := map[string]struct {
		plant func(path string) error
		want  string
	}{
		"fifo": {func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"it is a FIFO (named pipe), not a file"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, "it is a directory, not a file"},
		"device":    {func(path string) error { return os.Symlink("/dev/zero", path) }, "not a file"},
		"socket": {func(path string) error {
			listener, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { listener.Close() })
			}
			return err
		}, "it is a socket, not a file"},
		"dangling": {func(path string) error { return os.Symlink("absent", path) }, "link"},
	}
	for name, test := range plants {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			path := filepath.Join(t.TempDir(), "db")
			if suffix != "" { // beside a file that was closed in order
				first, err := filestore.New(path)
				if err == nil {
					err = errors.Join(take(first, store.Key{Subject: "u"}, hour, 1), first.Close())
				}
				must(t, err)
			}
			must(t, test.plant(path+suffix))
			err := take(open(t, path), store.Key{Subject: "u"}, hour, 1)
			if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), test.want) ||
				strings.Count(err.Error(), path) > 2 {
				t.Errorf("%s%s: %v", name, suffix, err)
			}
			_, err = open(t, path).Health(context.Background())
			if name != "dangling" && err == nil {
				t.Errorf("%s%s: doctor finds nothing wrong", name, suffix)
			}
		}
	}
}

// Files that are no database of limitctl's are left as they are.
func TestFilesOfOthers(t *testing.T) {
	made := func(statements ...string) func(path string) {
		return func(path string) {
			backend, err := filestore.New(path)
			if err == nil {
				err = errors.Join(take(backend, store.Key{Subject: "u"}, hour, 1), backend.Close())
			}
			must(t, err)
			for _, statement := range statements {
				execute(t, path, statement)
			}
		}
	}
	text := func(content string) func(path string) {
		return func(path string) {
			must(t, os.WriteFile(path, []byte(content), 0o600))
		}
	}
	for name, test := range map[string]struct {
		plant func(path string)
		want  string
	}{
		"sparse": {func(path string) {
			text("x")(path)
			must(t, os.Truncate(path, 10<<30))
		}, ""},
		"text":      {text(strings.Repeat("no database, just text. ", 50)), "not an SQLite database"},
		"a header":  {text("SQLite format 3\x00" + strings.Repeat("\xff", 8192)), ""},
		"a trigger": {made("CREATE TRIGGER t AFTER INSERT ON limits BEGIN DELETE FROM limits; END"), ""},
		"a view":    {made("ALTER TABLE limits RENAME TO other", "CREATE VIEW limits AS SELECT * FROM other"), ""},
		"a column":  {made("ALTER TABLE limits ADD COLUMN x GENERATED ALWAYS AS (zeroblob(1000000000))"), ""},
		"no table":  {made("DROP TABLE limits"), ""},
		"newer":     {made("PRAGMA user_version = 99"), "format version 99"},
		"another's": {func(path string) { execute(t, path, "CREATE TABLE limits (a)") }, "another program's database"},
	} {
		path := filepath.Join(t.TempDir(), "db")
		test.plant(path)
		before, err := os.Stat(path)
		must(t, err)
		err = take(open(t, path), store.Key{Subject: "v"}, hour, 1)
		if !errors.Is(err, store.ErrRefused) && !errors.Is(err, store.ErrForeign) ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Stat(path); err != nil || after.Size() != before.Size() {
			t.Errorf("%s: of %d bytes it has %v, %v", name, before.Size(), after, err)
		}
	}
}

// A value or a key longer than any is not even read.
func TestHugeValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	backend := open(t, path)
	must(t, take(backend, store.Key{Subject: "u"}, hour, 1))
	const insert = "INSERT INTO limits VALUES ('rl', ?, 'n', zeroblob(?), 9223372036854775807)"
	execute(t, path, insert, "huge", 32<<20)
	execute(t, path, insert, strings.Repeat("x", 1<<20), 10)
	execute(t, path, insert, "\x1b[31m", 10)
	all, err := store.ParsePattern("*")
	must(t, err)
	var foreign, sound int
	for entry, err := range backend.Scan(context.Background(), admin.Query{Subjects: all}) {
		switch {
		case errors.Is(err, store.ErrForeign):
			foreign++
		case err != nil:
			t.Fatal(err)
		case entry.Key.Subject == "u":
			sound++
		}
	}
	if foreign != 2 || sound != 1 {
		t.Errorf("%d foreign and %d sound keys, want 2 and 1", foreign, sound)
	}
	err = take(backend, store.Key{Subject: "huge", Name: "n"}, hour, 1)
	if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "more bytes than any record has") {
		t.Errorf("a value of 32 MB: %v", err)
	}
}
