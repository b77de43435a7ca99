//go:build unix

package endpoint

import (
	"crypto/tls"
	"errors"
	"syscall"
)

// look finds out whether a connection that was not used for a while is still open, and whether
// something came that nobody asked for. It does not wait. Over TLS what came can be a part of
// the encryption.
func (c *conn) look() (open, unasked bool) {
	under, isTLS := c.Conn, false
	if secure, is := c.Conn.(*tls.Conn); is {
		under, isTLS = secure.NetConn(), true
	}
	direct, is := under.(syscall.Conn)
	if !is {
		return true, false
	}
	raw, err := direct.SyscallConn()
	if err != nil {
		return false, false
	}
	n, failure := 0, error(nil)
	var one [1]byte
	// Not raw.Read, which looks at the deadline of the last request.
	err = raw.Control(func(fd uintptr) {
		n, _, failure = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return false, false
	case errors.Is(failure, syscall.EAGAIN) || errors.Is(failure, syscall.EINTR):
		return true, false
	case failure != nil || n == 0:
		return false, false
	}
	return isTLS, !isTLS
}
