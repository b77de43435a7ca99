package files

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/limitctl/limitctl/internal/readfile"
)

// CheckSocket returns an error if something else than a socket is at a path.
func CheckSocket(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("unix:%s is %s, not a socket", path, readfile.KindName(info.Mode()))
	}
	return nil
}

// ListenUnix listens at the path of a socket. A socket there that nobody answers is removed: an earlier run left it.
func ListenUnix(path string) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := CheckSocket(path); err != nil { // only then: to connect to a file is refused like to a socket that nobody answers
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
