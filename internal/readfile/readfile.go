// Package readfile opens and reads files that somebody else may have put in place. Only a
// regular file is opened, at once, and no more of it is read than its kind can have.
package readfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/limitctl/limitctl/internal/filekind"
)

// Open opens a regular file to be read. It returns at once, even for a FIFO or a device.
// It looks before it opens, since opening alone can do something to a device. It looks
// again at what it has opened, since that may be another file.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil {
		if err := Check("open", path, info); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDONLY|Unblocked, 0)
	if err != nil {
		return nil, err
	}
	return Regular(file)
}

// Regular returns an open file if it is a regular one. Else it closes the file.
func Regular(file *os.File) (*os.File, error) {
	info, err := file.Stat()
	if err == nil {
		err = Check("open", file.Name(), info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Check returns the error of a path where there is something else than a regular file.
func Check(op, path string, info fs.FileInfo) error {
	if err := filekind.Check(info.Mode()); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// All reads a whole file of at most that many bytes. The bytes are counted as they are read:
// a file can grow, and some files of the system say that they have none.
func All(path string, most int) ([]byte, error) {
	file, err := Open(path)
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
