//go:build unix

package files_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/limitctl/limitctl/internal/files"
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
		if data, err := files.Read(test.path, test.bound); (err == nil) != test.allowed || test.allowed &&
			len(data) == 0 {
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
		// A mode that was chosen for a file stays, and so does another owner if root writes.
		owner := os.Geteuid()
		if os.Chown(shared, 65534, -1) == nil { // this user may do that
			owner = 65534
		}
		check(t, errors.Join(os.Chmod(shared, 0o640), files.WriteShared(shared, []byte("again"))))
		info, err := os.Stat(shared)
		if err != nil || info.Mode().Perm() != 0o640 || int(info.Sys().(*syscall.Stat_t).Uid) != owner {
			t.Errorf("umask %03o: it has mode %v after it was replaced, %+v, %v", mask, info.Mode(), info.Sys(), err)
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
		"file":     "it is a file, not a directory",
		"dangling": "file exists",
	} {
		checkError(t, "MakeDir", filepath.Join(dir, name), files.MakeDir(filepath.Join(dir, name)), want)
	}
	open := filepath.Join(dir, "open")
	check(t, os.Mkdir(open, 0o700))
	check(t, os.Chmod(open, 0o777))
	checkError(t, "MakeDir", open, files.MakeDir(open), "other users may write to it; chmod go-w it")
}

// What is written goes to the end of a path: only a file is replaced, and only a directory or a socket is refused.
func TestWriteGoesToTheEndOfAPath(t *testing.T) {
	for _, test := range []struct {
		path, links, end, want string // LINK TARGET …; the file that holds the text, or else the error
	}{
		{"file", "", "file", ""}, {"new/new", "", "new/new", ""}, {"dangling", "", "absent", ""},
		{"a", "a b b file", "file", ""}, {"a", "a new/b", "new/b", ""},
		{strings.Repeat("n", 255), "", strings.Repeat("n", 255), ""},
		{"l/../x", "l sub/deep", "sub/x", ""}, {"a", "a l/../x l sub/deep", "sub/x", ""},
		{"l/a", "l sub/deep sub/deep/a ../x", "sub/x", ""},
		{"fifo", "", "fifo", ""}, {"a", "a fifo", "fifo", ""},
		{"/dev/fd/GIVEN", "", "given", ""}, {"a", "a /dev/fd/GIVEN", "given", ""},
		{"a", "a b b /dev/fd/GIVEN", "given", ""},
		{"/dev/fd/OWN", "", "", "that descriptor is not open"}, {"/dev/fd/999", "", "", "that descriptor is not open"},
		{"/dev/fd/READ", "", "", "that descriptor is open for reading only"},
		{"unread", "", "", "nobody reads the pipe; start its reader first"},
		{"directory", "", "", "it is a directory, not a file"},
		{"a", "a directory", "", "it is a directory, not a file"},
		{"new/", "", "", "it is a directory, not a file"}, {"socket", "", "", "it is a socket, not a file"},
		{"a", "a socket", "", "it is a socket, not a file"}, {"a", "a b b a", "", "too many levels of symbolic links"},
		{"file/a", "", "", "not a directory"}, {"fixed/file", "", "fixed/file", ""},
		{"fixed/new", "", "", "permission denied"},
	} {
		dir := folder(t)
		in := func(name string) string { return filepath.Join(dir, name) }
		check(t, errors.Join(os.MkdirAll(in("sub/deep"), 0o700), os.Mkdir(in("fixed"), 0o700),
			os.WriteFile(in("fixed/file"), nil, 0o600),
			syscall.Mkfifo(in("unread"), 0o600), os.Chmod(in("fixed"), 0o500)))
		t.Cleanup(func() { os.Chmod(in("fixed"), 0o700) })
		fifo, err := os.OpenFile(in("fifo"), os.O_RDWR, 0)
		check(t, err)
		defer fifo.Close()
		given, err := os.OpenFile(in("given"), os.O_RDWR|os.O_CREATE, 0o600)
		check(t, err)
		defer given.Close()
		read, err := os.Open(in("file"))
		check(t, err)
		defer read.Close()
		// one that is not closed on exec, like those that a process was started with
		number := func(file *os.File) string {
			n, err := syscall.Dup(int(file.Fd()))
			check(t, err)
			t.Cleanup(func() { syscall.Close(n) })
			return strconv.Itoa(n)
		}
		of := strings.NewReplacer("READ", number(read), "OWN", strconv.Itoa(int(given.Fd())), "GIVEN", number(given))
		links := strings.Fields(of.Replace(test.links))
		for i := 0; i < len(links); i += 2 {
			check(t, os.Symlink(links[i+1], in(links[i])))
		}
		path := of.Replace(test.path)
		if !filepath.IsAbs(path) {
			path = dir + "/" + path // not joined, which would take l/../x for x
		}
		if strings.HasPrefix(test.path, "fixed/new") && os.Geteuid() == 0 {
			continue
		}
		checkError(t, "CanWrite", path, files.CanWrite(path), test.want)
		checkError(t, "WriteShared", path, files.WriteShared(path, []byte("one")), test.want)
		stream, err := files.Extend(path)
		checkError(t, "Extend", path, err, test.want)
		if test.want != "" {
			continue
		}
		_, err = stream.Write([]byte("two"))
		check(t, errors.Join(err, stream.Close()))
		got, want := []byte(nil), "onetwo"
		switch test.end {
		case "fifo":
			got = make([]byte, 6)
			_, err = io.ReadFull(fifo, got)
		case "given": // where others go on to write
			want = "onetwothree"
			_, err = given.WriteString("three")
			check(t, err)
			fallthrough
		default:
			got, err = os.ReadFile(in(test.end))
		}
		if err != nil || string(got) != want {
			t.Errorf("%s %s: %s holds %q, %v; want %q", test.path, test.links, test.end, got, err, want)
		}
		for i := 0; i < len(links); i += 2 {
			if target, err := os.Readlink(in(links[i])); err != nil || target != links[i+1] {
				t.Errorf("%s %s: the link %s leads to %q, %v", test.path, test.links, links[i], target, err)
			}
		}
	}
}

// A file that limitctl reads again is a file, at the end of links.
func TestWriteOfOnesOwn(t *testing.T) {
	dir := folder(t)
	for _, name := range []string{"fifo", "directory", "zero", "socket"} {
		if err := files.Write(filepath.Join(dir, name), nil); err == nil || !files.IsNotAFile(err) {
			t.Errorf("Write %s: %v", name, err)
		}
	}
	check(t, files.Write(filepath.Join(dir, "link"), []byte("other")))
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "other" {
		t.Errorf("the file that a link leads to holds %q, %v", text, err)
	}
}

// A socket takes the place of one that nobody answers, and of nothing else. Its end removes nothing that is not its
// own.
func TestASocketReplacesNothingElse(t *testing.T) {
	dir := folder(t)
	check(t, os.Symlink("left", filepath.Join(dir, "link to it")))
	for name, want := range map[string]string{
		"file": "a file", "empty": "a file", "fifo": "a FIFO (named pipe)", "directory": "a directory",
		"zero": "a symbolic link",
		"link": "a symbolic link", "dangling": "a symbolic link", "link to it": "a symbolic link",
		"socket": "", "left": "left", "new": "new",
	} {
		path := filepath.Join(dir, name)
		if name == "left" {
			left, err := net.Listen("unix", path)
			check(t, err)
			left.(*net.UnixListener).SetUnlinkOnClose(false)
			check(t, left.Close())
		}
		before, _ := os.Lstat(path)
		listener, err := files.ListenUnix(path)
		if strings.HasPrefix(want, "a ") {
			want := "unix:" + path + " is " + want + ", not a socket"
			for _, err := range []error{err, files.CheckSocket(path)} {
				if err == nil || err.Error() != want {
					t.Errorf("%v, want %q", err, want)
				}
			}
		} else if checkErr := files.CheckSocket(path); checkErr != nil || (err == nil) != (want == name) {
			t.Errorf("%s: %v, %v", name, err, checkErr)
		}
		if err != nil {
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("%s is no longer there: %v", name, err)
			}
			continue
		}
		check(t, listener.Close())
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", name, err)
		}
		listener, err = files.ListenUnix(path)
		check(t, errors.Join(err, os.Remove(path), os.WriteFile(path, nil, 0o600), listener.Close(), listener.Close()))
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the file that took the place of %s is gone: %v", name, err)
		}
	}
}
