//go:build unix

package endpoint

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// look finds out, without waiting, whether an idle connection is still open, and whether an unrequested answer
// came. Over TLS the data can be a part of the encryption.
func look(conn net.Conn) (open, unasked bool) {
	under, isTLS := conn, false
	if secure, is := conn.(*tls.Conn); is {
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
	var seen struct {
		n       int
		failure error
		one     [1]byte
	}
	// Not raw.Read, which obeys the deadline of the last request.
	err = raw.Control(func(fd uintptr) {
		seen.n, _, seen.failure = syscall.Recvfrom(int(fd), seen.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	switch {
	case err != nil:
		return false, false
	case errors.Is(seen.failure, syscall.EAGAIN) || errors.Is(seen.failure, syscall.EINTR):
		return true, false
	case seen.failure != nil || seen.n == 0:
		return false, false
	}
	return isTLS, !isTLS
}
