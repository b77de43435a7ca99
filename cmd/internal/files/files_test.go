//go:build unix

package files_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/files"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder is a directory in which each name says what it is.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	check(t, syscall.Mkfifo(in("fifo"), 0o600))
	check(t, os.Mkdir(in("directory"), 0o700))
	check(t, os.Symlink("/dev/zero", in("zero")))
	check(t, os.Symlink("absent", in("dangling")))
	check(t, os.Symlink("file", in("link")))
	check(t, os.WriteFile(in("file"), []byte("text"), 0o600))
	check(t, os.WriteFile(in("empty"), nil, 0o600))
	check(t, os.WriteFile(in("sparse"), nil, 0o600))
	check(t, os.Truncate(in("sparse"), 10<<30))
	address := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", address)
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	return dir
}

func TestOnlyFilesAreRead(t *testing.T) {
	dir := folder(t)
	for name, want := range map[string]string{
		"file": "", "link": "", "empty": "",
		"fifo":      "it is a FIFO (named pipe), not a file",
		"directory": "it is a directory, not a file",
		"zero":      "it is a device, not a file",
		"socket":    "it is a socket, not a file",
		"dangling":  "no such file or directory",
		"sparse":    "it has more than 64 KiB, which is the most that is read of it",
	} {
		path := filepath.Join(dir, name)
		data, err := files.Read(path, files.MaxPassword)
		checkError(t, "Read", path, err, want)
		if name == "link" && string(data) != "text" {
			t.Errorf("it read %q", data)
		}
		file, err := files.Open(path)
		if name == "sparse" {
			want = "" // it is for reading in parts
		}
		checkError(t, "Open", path, err, want)
		if err == nil {
			file.Close()
		} else if file != nil {
			t.Errorf("Open %s returns an error and %v", path, file)
		}
	}
}

func checkError(t *testing.T, what, path string, err error, want string) {
	t.Helper()
	var problem *fs.PathError
	switch {
	case want == "" && err == nil:
	case want == "" || err == nil || !strings.HasSuffix(err.Error(), want):
		t.Errorf("%s %s: %v, want %q", what, path, err, want)
	case !errors.As(err, &problem) || problem.Path != path:
		t.Errorf("%s %s: its error does not say the path: %v", what, path, err)
	}
}

// The size that a file reports need not be its content's.
func TestTheBoundIsOnWhatIsRead(t *testing.T) {
	exact := filepath.Join(t.TempDir(), "exact")
	check(t, os.WriteFile(exact, []byte("0123456789"), 0o600))
	for _, test := range []struct {
		path    string
		bound   int
		allowed bool
	}{{exact, 10, true}, {exact, 9, false}, {"/proc/self/status", 64 << 10, true}, {"/proc/self/status", 10, false}} {
		if runtime.GOOS != "linux" && test.path != exact {
			continue
		}
		if data, err := files.Read(test.path, test.bound); (err == nil) != test.allowed || test.allowed && len(data) == 0 {
			t.Errorf("%s with a bound of %d: %d bytes, %v", test.path, test.bound, len(data), err)
		}
	}
}

// Files with subjects are only for their owner, whatever the umask.
func TestModes(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077} {
		before := syscall.Umask(mask)
		defer syscall.Umask(before)
		dir := filepath.Join(t.TempDir(), "state", "limitctl")
		check(t, files.MakeDir(dir))
		made, err := files.Create(filepath.Join(dir, "new"))
		check(t, err)
		added, err := files.Append(filepath.Join(dir, "audit"))
		check(t, errors.Join(err, made.Close(), added.Close(), files.Write(filepath.Join(dir, "written"), nil)))
		shared := filepath.Join(dir, "for others")
		check(t, files.WriteShared(shared, nil))
		if info, err := os.Stat(shared); err != nil || int(info.Mode().Perm()) != 0o666&^mask {
			t.Errorf("umask %03o: what others read has mode %v, %v", mask, info.Mode(), err)
		}
		// A mode that was chosen for a file stays.
		check(t, errors.Join(os.Chmod(shared, 0o640), files.WriteShared(shared, []byte("again"))))
		if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("umask %03o: it has mode %v after it was replaced, %v", mask, info.Mode(), err)
		}
		for _, name := range []string{"", "new", "audit", "written"} {
			info, err := os.Stat(filepath.Join(dir, name))
			check(t, err)
			if mode := info.Mode().Perm(); mode&0o077 != 0 {
				t.Errorf("umask %03o: %q has mode %03o", mask, name, mode)
			}
		}
		syscall.Umask(before)
	}
}

func TestAppendFollowsNothing(t *testing.T) {
	dir := folder(t)
	for name, want := range map[string]string{
		"link":      "it is a symbolic link, not a file",
		"dangling":  "it is a symbolic link, not a file",
		"zero":      "it is a symbolic link, not a file",
		"fifo":      "it is a FIFO (named pipe), not a file",
		"directory": "it is a directory, not a file",
		"socket":    "it is a socket, not a file",
	} {
		path := filepath.Join(dir, name)
		_, err := files.Append(path)
		checkError(t, "Append", path, err, want)
		if _, err := files.Create(path); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create %s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "text" {
		t.Errorf("what the link points to is %q, %v", text, err)
	}
	loose := filepath.Join(dir, "loose")
	check(t, os.WriteFile(loose, []byte("before\n"), 0o600))
	check(t, os.Chmod(loose, 0o664))
	file, err := files.Append(loose)
	check(t, err)
	defer file.Close()
	_, err = file.Write([]byte("after\n"))
	check(t, err)
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what others could read stays so: %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(loose); err != nil || !bytes.Equal(text, []byte("before\nafter\n")) {
		t.Errorf("it holds %q, %v", text, err)
	}
}

func TestADirectoryOfOnesOwn(t *testing.T) {
	dir := folder(t)
	for name, want := range map[string]string{
		"fifo":     "it is a FIFO (named pipe), not a directory",
		"file":     "it is a regular file, not a directory",
		"dangling": "file exists",
	} {
		checkError(t, "MakeDir", filepath.Join(dir, name), files.MakeDir(filepath.Join(dir, name)), want)
	}
	open := filepath.Join(dir, "open")
	check(t, os.Mkdir(open, 0o700))
	check(t, os.Chmod(open, 0o777))
	checkError(t, "MakeDir", open, files.MakeDir(open), "other users may write to it; chmod go-w it")
}

func TestWriteReplacesFilesOnly(t *testing.T) {
	dir := folder(t)
	for _, name := range []string{"fifo", "directory", "zero", "socket"} {
		path := filepath.Join(dir, name)
		for what, err := range map[string]error{"Write": files.Write(path, nil), "CanWrite": files.CanWrite(path)} {
			if err == nil || !files.IsNotAFile(err) {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
	}
}
