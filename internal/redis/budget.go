package redisserver

import (
	"bytes"
	"context"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// BoundExchanges ends connections of client on which a script call, or the commands before the first one, get no
// answer for longer than budget, whatever the time-outs of client are. Other commands keep these. Call it before
// the first use of client.
func BoundExchanges(client redis.UniversalClient, budget time.Duration) {
	hook := budgetHook{budget: budget}
	switch c := client.(type) {
	case *redis.Client:
		c.AddHook(hook)
	case *redis.ClusterClient:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	case *redis.Ring:
		c.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	}
}

// budgetHook is a [redis.Hook] for new connections.
type budgetHook struct {
	PassHook
	budget time.Duration
}

// DialHook implements [redis.Hook].
func (h budgetHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return bound(conn, h.budget), nil
	}
}

// bounded are the commands with a budget.
var bounded = []string{"evalsha", "evalsha_ro", "eval", "eval_ro", "hello", "auth", "client", "select", "readonly"}

// budgetConn is a connection that derives from the last command how long the answer may take. The client writes and
// then reads, one after the other.
type budgetConn struct {
	net.Conn
	budget  time.Duration
	until   atomic.Int64 // the end of the budget, in ns since the epoch; 0 for none
	writing time.Time    // the client's own deadline for writes; zero for none
}

// budgetSocket is a budgetConn of a socket. The client checks sockets before it reuses them, so it never sends on
// one that the server has closed.
type budgetSocket struct {
	*budgetConn
	syscall.Conn
}

// bound returns conn with a budget. A socket stays a socket.
func bound(conn net.Conn, budget time.Duration) net.Conn {
	limited := &budgetConn{Conn: conn, budget: budget}
	if socket, ok := conn.(syscall.Conn); ok {
		return &budgetSocket{limited, socket}
	}
	return limited
}

// NetConn returns the connection inside, like crypto/tls.
func (c *budgetConn) NetConn() net.Conn { return c.Conn }

// Write implements [net.Conn].
func (c *budgetConn) Write(words []byte) (int, error) {
	if name, begins := firstCommand(words); begins {
		until := int64(0)
		if slices.Contains(bounded, name) {
			until = time.Now().Add(c.budget).UnixNano()
		}
		if c.until.Swap(until) != 0 || until != 0 { // the client may set none itself
			c.Conn.SetReadDeadline(instant(until))
			c.Conn.SetWriteDeadline(c.earlier(c.writing))
		}
	}
	return c.Conn.Write(words)
}

// SetDeadline implements [net.Conn]. The client uses it to set no deadline before it checks a connection for the
// next exchange; then the budget of the last one is over.
func (c *budgetConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.until.Store(0)
	}
	c.writing = t
	return c.Conn.SetDeadline(c.earlier(t))
}

// SetWriteDeadline implements [net.Conn]. Write bounds it.
func (c *budgetConn) SetWriteDeadline(t time.Time) error {
	c.writing = t
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *budgetConn) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.earlier(t)) }

// earlier returns t or the budget's end, whichever is earlier.
func (c *budgetConn) earlier(t time.Time) time.Time {
	if until := instant(c.until.Load()); !until.IsZero() && (t.IsZero() || t.After(until)) {
		return until
	}
	return t
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

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
