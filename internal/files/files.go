// Package files is the only place in which commands open, read and write files, so that no folder that somebody
// else prepared can block a command. It reads only regular files, and no more than a bound for their kind.
package files

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/limitctl/limitctl/internal/readfile"
)

// The largest sizes of files that are read as a whole. A larger file is not of that kind.
const (
	MaxPassword    = 64 << 10
	MaxCertificate = 1 << 20
	// MaxChoice bounds the file in which "context use" stores a name.
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

// Open opens a file to read it once. It returns at once, even for a FIFO or a device.
func Open(path string) (File, error) {
	file, err := readfile.Open(path)
	if err != nil { // never a nil *os.File in an interface
		return nil, err
	}
	return file, nil
}

// List returns the entries of a directory, sorted by name.
func List(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Read reads a whole file of at most that many bytes.
func Read(path string, most int) ([]byte, error) { return readfile.All(path, most) }

// IsNotAFile reports whether err says that something is not a regular file.
func IsNotAFile(err error) bool {
	var not *readfile.KindError
	return errors.As(err, &not)
}
