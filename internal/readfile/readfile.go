// Package readfile opens and reads files that somebody else may have put in place, and replaces files as a whole. It
// opens only regular files, without waiting, and reads no more than a bound.
package readfile

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file to read. It returns at once, even for a FIFO or a device. It checks before it opens,
// since opening alone can affect a device, and again afterwards, since it may have opened another file.
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

// Regular returns an open file if it is a regular one. Otherwise it closes the file.
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

// Check returns an error if a path is not a regular file.
func Check(op, path string, info fs.FileInfo) error {
	if err := CheckKind(info.Mode()); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// All reads a whole file of at most most bytes, or a pipe that the shell made for the command, such as /dev/fd/63. It
// counts the bytes while it reads: a file can grow, and some system files report a size of 0.
func All(path string, most int) ([]byte, error) {
	open := Open
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 &&
		(path == "/dev/stdin" || IsDescriptor(path)) {
		open = func(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|Unblocked, 0) }
	}
	file, err := open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	tooLarge := &fs.PathError{Op: "read", Path: path,
		Err: fmt.Errorf("it has more than %s, which is the most that is read of it",
			size(most))}
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

// KindError says that something is not a regular file. Reading it could wait for ever, never end, or affect a device.
type KindError struct{ Mode fs.FileMode }

// Error says what is there instead.
func (e *KindError) Error() string { return "it is " + KindName(e.Mode) + ", not a file" }

// CheckKind returns a [*KindError] unless mode is that of a regular file.
func CheckKind(mode fs.FileMode) error {
	if mode.IsRegular() {
		return nil
	}
	return &KindError{mode}
}

// KindName returns the kind of file in words.
func KindName(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO (named pipe)"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0:
		return "a disk (block device)"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "something else"
}

// Gunzip returns the content of all that gzip packed one after the other. It ignores zero bytes after it, with which
// tapes and block devices fill their last block. Errors are those of package gzip.
func Gunzip(packed *bufio.Reader) (io.Reader, error) {
	member, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	member.Multistream(false)
	return &gunzipper{packed, member}, nil
}

type gunzipper struct {
	packed *bufio.Reader
	member *gzip.Reader
}

// Read implements io.Reader.
func (g *gunzipper) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 { // a member can be empty
		if n, err = g.member.Read(p); errors.Is(err, io.EOF) {
			err = g.nextMember()
		}
	}
	return n, err
}

// nextMember returns io.EOF if there is none.
func (g *gunzipper) nextMember() error {
	for {
		b, err := g.packed.ReadByte()
		if err != nil {
			return err
		}
		if b == 0 {
			continue
		}
		if b != 0x1f { // of which Reset sees too little if it is short
			return gzip.ErrHeader
		}
		if err = g.packed.UnreadByte(); err == nil {
			err = g.member.Reset(g.packed)
		}
		g.member.Multistream(false)
		return err
	}
}
