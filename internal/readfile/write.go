package readfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file as a whole and creates its directory. It writes a second file and renames it, so that every
// reader sees the old or the new one. Only its owner can read it.
func Write(path string, data []byte) error {
	return Replace(path, data, 0o700, func(directory string) (*os.File, error) {
		return os.CreateTemp(directory, filepath.Base(path)+".*")
	})
}

// Replace replaces a file as a whole. create creates the second file in a directory.
func Replace(path string, data []byte, mode fs.FileMode, create func(directory string) (*os.File, error)) error {
	if err := Replaceable(path); err != nil {
		return err
	}
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, mode); err != nil {
		return err
	}
	file, err := create(directory)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// Replaceable returns an error if the path is something other than a file, such as a directory or a device, which
// cannot or must not be replaced.
func Replaceable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return Check("write", path, info)
}
