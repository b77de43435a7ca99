package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/sys"
)

// Disagreements of a URL and a port about TLS. Without a check of the port both look like a server that is silent
// or hangs up.
var (
	errPlainPort = errors.New("the port does not speak TLS, which the URL asks for; write redis in place of rediss, or name the TLS port")
	errTLSPort   = errors.New("the port speaks TLS; write rediss in place of redis")
)

// portProtocol is a [redis.Hook] that detects that a port speaks TLS and the URL does not, or the other way round.
type portProtocol struct {
	redisserver.PassHook
	tls bool // the URL asks for TLS
	// wait is the time for a handshake before the check of the port, and for the check.
	wait time.Duration
}

// portProtocolOf returns the check of a port that does not speak the protocol of its URL; config is nil without TLS.
func portProtocolOf(config *tls.Config, options Options) portProtocol {
	return portProtocol{tls: config != nil, wait: options.Timeout / 4}
}

// DialHook implements [redis.Hook].
func (p portProtocol) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return p.dial(ctx, network, address, next)
	}
}

// dial connects with next.
func (p portProtocol) dial(ctx context.Context, network, address string, next redis.DialHook) (net.Conn, error) {
	if network == "unix" {
		return next(ctx, network, address)
	}
	if !p.tls {
		conn, err := next(ctx, network, address)
		if socket, is := conn.(syscall.Conn); err == nil && is {
			return &firstRead{Conn: conn, Socket: socket, protocol: p, address: address}, nil
		}
		return conn, err
	}
	type dialled struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialled, 1)
	var conn net.Conn
	panics.Go(func() (err error) {
		conn, err = next(ctx, network, address)
		return err
	}, func(err error) { done <- dialled{conn, err} })
	slow := time.NewTimer(p.wait)
	defer slow.Stop()
	select {
	case d := <-done:
		var header tls.RecordHeaderError
		if errors.As(d.err, &header) {
			return nil, opError("dial", address, errPlainPort)
		}
		return d.conn, d.err
	case <-slow.C:
	}
	if !p.speaksPlain(ctx, address) {
		d := <-done
		return d.conn, d.err
	}
	panics.Go(func() error { // the dial ends by its own time-out
		if d := <-done; d.conn != nil {
			return d.conn.Close()
		}
		return nil
	}, func(error) {})
	return nil, opError("dial", address, errPlainPort)
}

// opError makes a network error of err that names the operation and the address.
func opError(op, address string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: named(address), Err: err}
}

// named is an address as it was written.
type named string

// Network implements [net.Addr].
func (named) Network() string { return "tcp" }

// String implements [net.Addr].
func (n named) String() string { return string(n) }

// speaksPlain reports whether a port answers a PING without TLS. It sends no password.
func (p portProtocol) speaksPlain(ctx context.Context, address string) bool {
	conn, err := p.look(ctx, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 1)
	n, _ := conn.Read(answer)
	return n == 1 && strings.ContainsRune("+-", rune(answer[0]))
}

// speaksTLS reports whether a port answers a TLS handshake, with any result.
func (p portProtocol) speaksTLS(ctx context.Context, address string) bool {
	conn, err := p.look(ctx, address)
	if err != nil {
		return false
	}
	defer conn.Close()
	// Nothing secret is sent, so it does not matter who answers.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	var alert tls.AlertError
	var system *net.OpError
	return err == nil || errors.As(err, &alert) || errors.As(err, &system) && system.Op == "remote error"
}

// look connects to a port for the check.
func (p portProtocol) look(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: p.wait}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(p.wait))
}

// firstRead is a connection without TLS that detects by the first answer that the port speaks TLS: such a port
// hangs up, or sends an alert.
type firstRead struct {
	net.Conn
	Socket   syscall.Conn
	protocol portProtocol
	address  string
	heard    atomic.Bool // the first answer has come
	wrong    atomic.Bool // and the port speaks TLS
}

// SyscallConn implements [syscall.Conn]: clients look at sockets to see whether they are sound.
func (c *firstRead) SyscallConn() (syscall.RawConn, error) { return c.Socket.SyscallConn() }

// alertRecord is the first byte of a TLS alert.
const alertRecord = 0x15

// Read implements [net.Conn].
func (c *firstRead) Read(p []byte) (int, error) {
	if c.wrong.Load() { // a client can try again in another way
		return 0, opError("read", c.address, errTLSPort)
	}
	n, err := c.Conn.Read(p)
	if c.heard.Load() || sys.IsTimeout(err) {
		return n, err
	}
	c.heard.Store(true)
	odd := n > 0 && p[0] == alertRecord || n == 0 && err != nil
	if odd && c.protocol.speaksTLS(context.Background(), c.address) {
		c.wrong.Store(true)
		return 0, opError("read", c.address, errTLSPort)
	}
	return n, err
}
