package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/limitctl/limitctl/internal/readfile"
)

// private is the mode of files that contain subjects or say what was done to them, even if the umask allows more.
const private, privateDir fs.FileMode = 0o600, 0o700

// Write replaces a file as a whole and creates its directory. Only its owner can read it. Like all functions here that
// write, but for those of limitctl's own files, it follows links; see [readfile.Follow].
func Write(path string, data []byte) error { return readfile.Write(path, data) }

// WriteShared writes a file that the user named and will pass on, such as a report in CI that another user collects. It
// replaces a file, which others may then read as the umask says, and writes to what cannot be replaced: see open.
func WriteShared(path string, data []byte) error {
	end, info, file, err := open(path)
	if err != nil {
		return err
	}
	if file == nil {
		return readfile.Replace(end, info, data, true)
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// open returns the end of a path's links and what is there, and opens it if it is written to instead of replaced: a
// descriptor of a process (/dev/stdout), a pipe or a terminal. A directory, a socket or a disk is an error.
func open(path string) (end string, info fs.FileInfo, file *os.File, err error) {
	end, info, err = readfile.Follow(path)
	is := err == nil && readfile.IsDescriptor(end)
	switch {
	case err != nil:
	case is && isOwnDescriptor(end):
		file, err = duplicate(path, filepath.Base(end))
	case is && info == nil:
		err = &fs.PathError{Op: "write", Path: path, Err: errNotOpen}
	case !is && (info == nil || info.Mode().IsRegular()):
	case info.IsDir(), info.Mode()&fs.ModeSocket != 0, info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
		err = readfile.Check("write", path, info)
	default:
		if file, err = os.OpenFile(end, os.O_WRONLY|os.O_APPEND|readfile.Unblocked, 0); nobodyReads(err) {
			err = &fs.PathError{Op: "write", Path: path,
				Err: errors.New("nobody reads the pipe; start its reader first")}
		}
	}
	return end, info, file, err
}

var errNotOpen = errors.New("that descriptor is not open")

// CanWrite returns why WriteShared would fail, and leaves nothing behind.
func CanWrite(path string) error {
	end, info, file, err := open(path)
	if err != nil {
		return err
	}
	if file == nil {
		return readfile.CanReplace(end, info)
	}
	hold(file)
	return file.Close()
}

// Follow returns the end of the links of a path, or the path if that is not known.
func Follow(path string) string {
	if end, _, err := readfile.Follow(path); err == nil {
		path = end
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// Extend opens a file that others write and read, too. It extends a file that exists, and opens anything else as
// WriteShared does.
func Extend(path string) (io.WriteCloser, error) {
	end, _, file, err := open(path)
	if err == nil && file == nil {
		file, err = os.OpenFile(end, os.O_WRONLY|os.O_CREATE|os.O_APPEND|readfile.Unblocked, 0o666)
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Create creates a file that only its owner may read, and that must not exist yet: it neither follows nor replaces
// a link. Its directory must exist.
func Create(path string) (File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|noFollow, private)
	if err != nil {
		return nil, err
	}
	mark(file)
	return file, nil
}

// IsBeingWritten reports whether a process has a file of [Create] still open.
func IsBeingWritten(path string) bool {
	file, err := readfile.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return isMarked(file)
}

// Append opens a file of limitctl to append and to read, and restricts it to its owner. A link in its place, or a
// file of somebody else, is an error: the data would go where nobody looks for it.
func Append(path string) (File, error) {
	if info, err := os.Lstat(path); err == nil {
		if err := readfile.Check("open", path, info); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR|readfile.Unblocked|noFollow, private)
	switch {
	case errors.Is(err, syscall.ELOOP): // put there between the check and the opening
		return nil, &fs.PathError{Op: "open", Path: path, Err: &readfile.KindError{Mode: fs.ModeSymlink}}
	case err != nil:
		return nil, err
	}
	if file, err = readfile.Regular(file); err != nil {
		return nil, err
	}
	if err := own(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// own checks that an open file or directory of limitctl belongs to the user, and removes the rights of others. An
// older version of limitctl, or another umask, may have left it readable.
func own(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !isOwn(info) {
		return &fs.PathError{Op: "open", Path: file.Name(), Err: errors.New("it belongs to another user")}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return file.Chmod(mode &^ 0o077)
	}
	return nil
}

// MakeDir makes a directory of limitctl, and those above it, for their owner alone. An existing one that others can
// write to is an error: they could have put anything in it.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, privateDir); err != nil {
		var problem *fs.PathError
		if info, statErr := os.Stat(path); errors.As(err, &problem) && statErr == nil && !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path,
				Err: fmt.Errorf("it is %s, not a directory", readfile.KindName(info.Mode()))}
		}
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !isOwn(info):
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("it belongs to another user")}
	case info.Mode().Perm()&0o022 != 0:
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("other users may write to it; chmod go-w it")}
	}
	return nil
}
