package serve

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections is a listener that bounds the number of open connections. Beyond the bound the one that has waited longest for its
// client is closed, so that idle or silent clients keep nobody out. It is the new one if all others have a request under way.
type connections struct {
	net.Listener
	most int
	// tell is called for each connection that opens or closes, and for each that the bound closes.
	tell func(change int, refused bool)
	// failed is called with the reason why no connection can be accepted.
	failed func(err error)

	turn    sync.Mutex
	open    int
	waiting list.List // of *conn, the longest first
}

// conn is one of the connections.
type conn struct {
	net.Conn
	of     *connections
	place  *list.Element // in waiting; nil while a request is being answered
	closed bool
}

// Accept returns the next connection.
func (l *connections) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			l.failed(err)
		}
		return nil, err
	}
	c := &conn{Conn: inner, of: l}
	l.turn.Lock()
	l.open++
	c.place = l.waiting.PushBack(c)
	first := l.waiting.Front().Value.(*conn)
	full := l.open > l.most
	l.turn.Unlock()
	l.tell(1, full)
	if full {
		first.Close()
	}
	return c, nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.turn.Lock()
	first := !c.closed
	c.closed = true
	if first {
		c.of.open--
		c.answers()
	}
	c.of.turn.Unlock()
	if first {
		c.of.tell(-1, false)
	}
	return c.Conn.Close()
}

// answers removes a connection from those that wait.
func (c *conn) answers() {
	if c.place != nil {
		c.of.waiting.Remove(c.place)
		c.place = nil
	}
}

// changed is the HTTP server's callback for the state of a connection.
func (l *connections) changed(of net.Conn, state http.ConnState) {
	if outer, is := of.(*tls.Conn); is {
		of = outer.NetConn()
	}
	c := of.(*conn)
	l.turn.Lock()
	defer l.turn.Unlock()
	switch {
	case c.closed:
	case state == http.StateActive:
		c.answers()
	case state == http.StateIdle && c.place == nil:
		c.place = l.waiting.PushBack(c)
	}
}

// lastLook is the time in which a client that has to leave can finish sending.
const lastLook = 50 * time.Millisecond

// leave ends the connections that wait for their clients, unless a request arrives within lastLook.
func (l *connections) leave() {
	l.turn.Lock()
	defer l.turn.Unlock()
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*conn).SetReadDeadline(time.Now().Add(lastLook))
	}
}

// count returns how many connections are open, and how many of them wait for their clients.
func (l *connections) count() (open, waiting int) {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.open, l.waiting.Len()
}
