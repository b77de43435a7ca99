// Package files is how commands reach files: the one place that opens, reads and writes
// them, so that no folder that somebody else prepared can hold a command up. Only a
// regular file is read, and no more of it than its kind can have.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/limitctl/limitctl/internal/filekind"
)

// How much of each kind of file is read as a whole. What is larger is none of its kind.
const (
	MaxConfig      = 1 << 20
	MaxPassword    = 64 << 10
	MaxCertificate = 1 << 20
	// MaxChoice bounds the file in which "context use" remembers a name.
	MaxChoice = 4 << 10
)

// File is an open file.
type File interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
}

// Open opens a file to be read from its beginning to its end. It returns at once,
// whatever is there.
func Open(path string) (File, error) {
	file, err := open(path)
	if err != nil { // and no nil *os.File in an interface
		return nil, err
	}
	return file, nil
}

// open looks before it opens, as opening alone can do something to a device, and again
// at what it has opened, which may be another by then.
func open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil {
		if err := check("open", path, info); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unblocked, 0)
	if err != nil {
		return nil, err
	}
	return regular(file)
}

// regular returns an open file if it is one, and else closes it.
func regular(file *os.File) (*os.File, error) {
	info, err := file.Stat()
	if err == nil {
		err = check("open", file.Name(), info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// check returns the error of what is no regular file.
func check(op, path string, info fs.FileInfo) error {
	if err := filekind.Check(info.Mode()); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// Read reads a file as a whole that has at most so many bytes. Those are counted as they
// are read, since a file can grow, and some of a system's own say that they have none.
func Read(path string, most int) ([]byte, error) {
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	tooLarge := &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %s, which is the most that is read of it", size(most))}
	if info, err := file.Stat(); err == nil && info.Size() > int64(most) {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(data) > most {
		err = tooLarge
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func size(bytes int) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// IsNotAFile reports whether err is about what is no regular file.
func IsNotAFile(err error) bool {
	var not *filekind.Error
	return errors.As(err, &not)
}
