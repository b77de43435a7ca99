// Package files is the only place in which commands open, read and write files, so that no folder that somebody
// else prepared can block a command. It reads only regular files, and no more than a bound for their kind.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/limitctl/limitctl/internal/readfile"
)

// The largest sizes of files that are read as a whole. A larger file is not of that kind.
const (
	MaxPassword    = 64 << 10
	MaxCertificate = 1 << 20
	MaxChoice      = 4 << 10 // of the file in which "context use" stores a name
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

// Remove removes a file.
func Remove(path string) error { return os.Remove(path) }

// Read reads a whole file of at most that many bytes.
func Read(path string, most int) ([]byte, error) { return readfile.All(path, most) }

// IsNotAFile reports whether err says that something is not a regular file.
func IsNotAFile(err error) bool {
	var not *readfile.KindError
	return errors.As(err, &not)
}

// longestSocket is the most bytes of the path of a socket on Linux.
const longestSocket = 107

// CheckSocket returns an error if something else than a socket is at a path, or the path is too long for one.
func CheckSocket(path string) error {
	if len(path) > longestSocket {
		return fmt.Errorf("unix:%s has more than %d bytes", path, longestSocket)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("unix:%s is %s, not a socket", path, readfile.KindName(info.Mode()))
	}
	return nil
}

// ListenUnix listens at the path of a socket. A socket there that nobody answers is removed: an earlier run left it.
func ListenUnix(path string) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) { // only then: a file refuses a connection as a socket without a process does
		if err := CheckSocket(path); err != nil {
			return nil, err
		}
		if conn, dialErr := net.Dial("unix", path); dialErr == nil {
			conn.Close()
		} else if errors.Is(dialErr, syscall.ECONNREFUSED) {
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("the socket %s of an earlier run cannot be removed: %w", path, err)
			}
			listener, err = net.Listen("unix", path)
		}
	}
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	made, _ := os.Lstat(path) // fails for an abstract one
	return &socket{listener, sync.OnceValue(func() error {
		if now, err := os.Lstat(path); err == nil && os.SameFile(made, now) {
			os.Remove(path)
		}
		return listener.Close()
	})}, nil
}

// socket removes its own path when it closes, and nothing that was put there since.
type socket struct {
	net.Listener
	close func() error
}

func (s *socket) Close() error { return s.close() }

// ReadCertificate reads the file of a certificate or its key.
func ReadCertificate(path string) ([]byte, error) { return Read(path, MaxCertificate) }
