//go:build unix

package endpoint

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// isIdle finds out, without waiting, that an unused connection is still open, and that no answer came to which there is no
// request. Over TLS the data can be a part of the encryption.
func isIdle(conn net.Conn) bool {
	under, isTLS := conn, false
	if secure, is := conn.(*tls.Conn); is {
		under, isTLS = secure.NetConn(), true
	}
	direct, is := under.(syscall.Conn)
	if !is {
		return true
	}
	raw, err := direct.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	var failure error
	// Not raw.Read, which obeys the deadline of the last request.
	err = raw.Control(func(fd uintptr) {
		n, _, failure = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	waits := errors.Is(failure, syscall.EAGAIN) || errors.Is(failure, syscall.EINTR)
	return err == nil && (waits || failure == nil && n > 0 && isTLS)
}
