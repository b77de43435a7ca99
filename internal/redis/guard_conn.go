package redisserver

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// guardConn returns conn with bounded answers, or conn itself if it is already guarded. The connection must speak RESP
// from its first byte on.
func guardConn(conn net.Conn) net.Conn {
	switch conn := conn.(type) {
	case *guarded, *guardedSocket:
		return conn
	case syscall.Conn:
		return &guardedSocket{guarded{Conn: conn.(net.Conn)}, conn}
	}
	return &guarded{Conn: conn}
}

// guarded is a connection with bounded answers.
type guarded struct {
	net.Conn
	scanner scanner
	broken  error
	// asked is set when an exchange begins: something was written, or a deadline was set. Then the cost is counted
	// from zero. One goroutine can write while another reads.
	asked atomic.Bool
}

// guardedSocket is guarded for a connection that is a socket itself, unlike one inside TLS. Clients check sockets
// for health.
type guardedSocket struct {
	guarded
	syscall.Conn
}

// Read implements [net.Conn]. It returns the bytes before the line that exceeds a bound, so that complete answers
// to other commands before it still count.
func (g *guarded) Read(p []byte) (int, error) {
	if g.broken != nil {
		return 0, g.broken
	}
	n, err := g.Conn.Read(p)
	if g.asked.Load() {
		g.asked.Store(false)
		g.scanner.spent = 0
	}
	sound, broken := g.scanner.scan(p[:n])
	if broken != nil {
		g.broken = broken
		return sound, broken
	}
	return n, err
}

// Write implements [net.Conn].
func (g *guarded) Write(p []byte) (int, error) {
	g.asked.Store(true)
	return g.Conn.Write(p)
}

// SetDeadline implements [net.Conn].
func (g *guarded) SetDeadline(t time.Time) error {
	g.asked.Store(true)
	return g.Conn.SetDeadline(t)
}

// SetReadDeadline implements [net.Conn]. A client sets it once for all answers of a pipeline; a subscriber, which
// writes nothing, sets it for each message.
func (g *guarded) SetReadDeadline(t time.Time) error {
	g.asked.Store(true)
	return g.Conn.SetReadDeadline(t)
}

// NetConn returns the connection inside, like crypto/tls.
func (g *guarded) NetConn() net.Conn { return g.Conn }
