//go:build unix

package endpoint

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// idleness returns a function that finds out, without waiting, whether an unused connection is still open, and that no
// answer came to which there is no request. Over TLS the data can be a part of the encryption.
func idleness(conn net.Conn) func() bool {
	under, isTLS := conn, false
	if secure, is := conn.(*tls.Conn); is {
		under, isTLS = secure.NetConn(), true
	}
	raw, err := under.(syscall.Conn).SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	var n int
	var failure error
	room := make([]byte, 1)
	peek := func(fd uintptr) {
		n, _, failure = syscall.Recvfrom(int(fd), room, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}
	return func() bool {
		err := raw.Control(peek) // not raw.Read, which obeys the deadline of the last request
		waits := errors.Is(failure, syscall.EAGAIN) || errors.Is(failure, syscall.EINTR)
		return err == nil && (waits || failure == nil && n > 0 && isTLS)
	}
}
