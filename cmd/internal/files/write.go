package files

import (
	"crypto/rand"
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

// Write replaces a file as a whole and creates its directory. It writes a second file and renames it, so that every
// reader sees the old or the new one. Only its owner can read it.
func Write(path string, data []byte) error { return readfile.Write(path, data) }

// shared is the mode of files that the user named and will pass on, reduced by the umask like any file of a shell.
const shared, sharedDir fs.FileMode = 0o666, 0o777

// WriteShared is Write for a file that others may read, such as a report in CI that another user collects: its mode
// follows the umask. A file that is replaced keeps its mode.
func WriteShared(path string, data []byte) error {
	return readfile.Replace(path, data, sharedDir, func(directory string) (*os.File, error) {
		second := filepath.Join(directory, filepath.Base(path)+"."+rand.Text()[:10])
		file, err := os.OpenFile(second, os.O_WRONLY|os.O_CREATE|os.O_EXCL, shared)
		if err != nil {
			return nil, err
		}
		if before, err := os.Stat(path); err == nil {
			if err := file.Chmod(before.Mode().Perm()); err != nil {
				return nil, errors.Join(err, file.Close(), os.Remove(second))
			}
		}
		return file, nil
	})
}

// CanWrite tries the steps of Write in the directory, or the nearest existing one above, and leaves nothing behind.
func CanWrite(path string) error {
	if err := readfile.Replaceable(path); err != nil {
		return err
	}
	directory := filepath.Dir(path)
	for {
		_, err := os.Stat(directory)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		directory = filepath.Dir(directory)
	}
	file, err := os.CreateTemp(directory, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(file.Name())
}

// Stream opens a file that grows while others read it, such as a FIFO. It empties a file that exists. A file or FIFO has the mode
// of [WriteShared].
func Stream(path string) (io.WriteCloser, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noWait, shared)
	switch {
	case nobodyReads(err):
		return nil, errors.New("nobody reads the pipe; start its reader first")
	case err != nil:
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
	return file, nil
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

// Keep removes the rights of others to a file of limitctl, if it exists and belongs to the user: an older version
// left it readable.
func Keep(path string) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || !isOwn(info) {
		return
	}
	if file, err := os.OpenFile(path, os.O_RDONLY|readfile.Unblocked|noFollow, 0); err == nil {
		defer file.Close()
		own(file) // on an error it stays as it was
	}
}

// MakeDir makes a directory of limitctl, and those above it, for their owner alone. An existing one that others can
// write to is an error: they could have put anything in it.
func MakeDir(path string) error {
	if err := os.MkdirAll(path, privateDir); err != nil {
		var problem *fs.PathError
		if info, statErr := os.Stat(path); errors.As(err, &problem) && statErr == nil && !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: fmt.Errorf("it is %s, not a directory", readfile.KindName(info.Mode()))}
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
