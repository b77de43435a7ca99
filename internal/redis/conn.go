package redisserver

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// conn is a connection whose answers are bounded in size, see scanner, and in time if it has a budget.
//
// A client allocates what an answer announces before it arrives: one line of twenty bytes from a broken or hostile
// server can end the process, or fill the machine's memory. So the bytes are checked while they are read.
type conn struct {
	net.Conn
	scanner scanner
	broken  error
	heard   bool // something was answered
	// asked is set when an exchange begins: something was written, or a deadline was set. Then the cost is counted
	// from zero. One goroutine can write while another reads.
	asked atomic.Bool

	budget  time.Duration // for the answer to a bounded command; 0 for none
	until   atomic.Int64  // the end of the budget, in ns since the epoch; 0 for none
	writing time.Time     // the client's own deadline for writes; zero for none
}

// socketConn is a conn of a socket, unlike one inside TLS. The client checks sockets before it reuses them, so it never
// sends on one that the server has closed.
type socketConn struct {
	*conn
	syscall.Conn
}

// bound returns a connection with bounds. It must speak RESP from its first byte on.
func bound(of net.Conn, budget time.Duration) net.Conn {
	c := &conn{Conn: of, budget: budget}
	if socket, ok := of.(syscall.Conn); ok {
		return &socketConn{c, socket}
	}
	return c
}

// NetConn returns the connection inside, like crypto/tls.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements [net.Conn]. It returns the bytes before the line that exceeds a bound, so that complete answers
// to other commands before it still count.
func (c *conn) Read(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	n, err := c.Conn.Read(p)
	if err := c.hungUp(err); err != nil {
		return 0, err
	}
	c.heard = c.heard || n > 0
	if c.asked.Swap(false) {
		c.scanner.spent = 0
	}
	sound, broken := c.scanner.scan(p[:n])
	if broken != nil {
		c.broken = broken
		return sound, broken
	}
	return n, err
}

// Write implements [net.Conn]. The client writes and then reads, one after the other, so the last command says how long
// the answer may take.
func (c *conn) Write(words []byte) (int, error) {
	c.asked.Store(true)
	if c.budget == 0 {
		return c.write(words)
	}
	if name, begins := firstCommand(words); begins {
		until := int64(0)
		if slices.Contains(bounded, name) {
			until = time.Now().Add(c.budget).UnixNano()
		}
		if c.until.Swap(until) != 0 || until != 0 { // the client may set none itself
			c.Conn.SetReadDeadline(c.earlier(time.Time{}))
			c.Conn.SetWriteDeadline(c.earlier(c.writing))
		}
	}
	return c.write(words)
}

// write writes words. A server that wants a client's certificate hangs up after the handshake, and its reason is lost
// if this client was writing.
func (c *conn) write(words []byte) (int, error) {
	n, err := c.Conn.Write(words)
	if _, plain := c.Conn.(*net.TCPConn); !plain {
		err = cmp.Or(c.hungUp(err), err)
	}
	return n, err
}

// hungUp returns what can be wrong if a server ends a connection before it has answered anything, and nil for
// another error.
func (c *conn) hungUp(err error) error {
	var tlsError *net.OpError // a TLS alert says the reason
	alert := errors.As(err, &tlsError) && tlsError.Op == "remote error"
	if c.heard || err == nil || alert || sys.IsTimeout(err) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	switch c.Conn.(type) {
	case *net.TCPConn:
		return netError(errHungUp)
	case *tls.Conn:
		return netError(errNoCertificate)
	}
	return nil
}

// SetDeadline implements [net.Conn]. The client uses it to set no deadline before it checks a connection for the
// next exchange; then the budget of the last one is over.
func (c *conn) SetDeadline(t time.Time) error {
	c.asked.Store(true)
	if t.IsZero() {
		c.until.Store(0)
	}
	c.writing = t
	return c.Conn.SetDeadline(c.earlier(t))
}

// SetWriteDeadline implements [net.Conn]. Write bounds it.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writing = t
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn]. A client sets it once for all answers of a pipeline; a subscriber, which
// writes nothing, sets it for each message.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.asked.Store(true)
	return c.Conn.SetReadDeadline(c.earlier(t))
}

// earlier returns t or the budget's end, whichever is earlier.
func (c *conn) earlier(t time.Time) time.Time {
	ns := c.until.Load()
	if until := time.Unix(0, ns); ns != 0 && (t.IsZero() || t.After(until)) {
		return until
	}
	return t
}

// bounded are the commands with a budget.
var bounded = []string{"evalsha", "evalsha_ro", "eval", "eval_ro", "hello", "auth", "client", "select", "readonly"}

// firstCommand returns the name of the command at the beginning of words, in lower case as the client writes it.
// begins is false for the rest of a command.
func firstCommand(words []byte) (name string, begins bool) {
	if len(words) == 0 || words[0] != '*' {
		return "", false
	}
	parts := bytes.SplitN(words[:min(len(words), 64)], []byte("\r\n"), 4)
	if len(parts) < 3 {
		return "", false
	}
	return string(parts[2]), true
}

// A port of the other protocol answers nothing: one with TLS hangs up, and one without waits for more.
var (
	errHungUp        = errors.New("it hung up before any answer; does the port speak TLS?")
	errNoCertificate = errors.New("it hung up before any answer; is a client's certificate required (tls_cert, tls_key)?")
	errNoHandshake   = errors.New("no answer to the TLS handshake in time; does the port speak TLS?")
	errNoTLS         = errors.New("the port does not speak TLS")
)

// dialError returns an error of dialing, which says what can be wrong with a TLS handshake.
func dialError(err error) error {
	var dial *net.OpError
	var header tls.RecordHeaderError
	switch {
	case store.IsAway(err) || errors.Is(err, store.ErrRefused): // it is the limiter's, about Sentinels
	case errors.As(err, &header):
		return netError(errNoTLS)
	case sys.IsTimeout(err) && !errors.As(err, &dial): // it is not about the connection
		return netError(errNoHandshake)
	}
	return err
}

func netError(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
