package serve

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
)

// connections is a listener that bounds the number of open connections. A connection beyond the bound replaces the
// one that has waited longest for its client, so that idle or slow clients cannot keep others out. If all of them
// have a request under way, the new one is closed.
type connections struct {
	net.Listener
	most int
	// keeps: an open connection never makes room for another, since nobody reports which have a request under way.
	keeps bool
	// tell is called for each connection that opens or closes, and for each that the bound refuses.
	tell func(change int, refused bool)
	// failed is called, at most once a minute, with the reason why no connection can be accepted.
	failed   func(err error)
	failedAt time.Time // of the last call of failed; used only by the goroutine that accepts

	turn    sync.Mutex
	open    int
	waiting list.List     // of *conn, the longest first
	none    chan struct{} // closed once none is waiting or asks; nil if nobody needs it
	asking  atomic.Int64  // the number of connections that ask

	closing atomic.Bool
}

// conn is one of the connections.
type conn struct {
	net.Conn
	of *connections
	// place is its element in waiting; nil while a request is being answered.
	place  *list.Element
	closed bool
	waits  atomic.Bool
	// asks: its request was read, and nobody answers it yet. An HTTP server that shuts down drops such a request.
	asks    atomic.Bool
	leaving atomic.Bool
}

// lastLook is the time in which a client that has to leave can finish sending.
const lastLook = 50 * time.Millisecond

// queueTime is the time after the decision to close in which connections that the system has accepted are still
// taken.
const queueTime = 20 * time.Millisecond

// Accept returns the next connection.
func (l *connections) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			if l.closing.Load() && sys.IsTimeout(err) {
				err = errors.Join(net.ErrClosed, l.Listener.Close())
			}
			if now := time.Now(); !errors.Is(err, net.ErrClosed) && now.Sub(l.failedAt) >= time.Minute {
				l.failedAt = now
				l.failed(err)
			}
			return nil, err
		}
		c := &conn{Conn: inner, of: l}
		if l.admit(c) {
			return c, nil
		}
		inner.Close()
	}
}

// stop takes the connections that the system has already accepted, and none after that.
func (l *connections) stop() {
	l.closing.Store(true)
	if limited, can := l.Listener.(interface{ SetDeadline(time.Time) error }); can {
		limited.SetDeadline(time.Now().Add(queueTime))
		return
	}
	l.Listener.Close()
}

// admit reports whether there is room for a connection, and makes room if it can.
func (l *connections) admit(c *conn) bool {
	l.turn.Lock()
	var longest *conn
	if l.open >= l.most {
		first := l.waiting.Front()
		if first == nil {
			l.turn.Unlock()
			l.tell(0, true)
			return false
		}
		longest = first.Value.(*conn)
		longest.forget()
	}
	l.open++
	if !l.keeps {
		c.place = l.waiting.PushBack(c)
		c.waits.Store(true)
	}
	l.turn.Unlock()
	if longest != nil {
		longest.Conn.Close()
		l.tell(-1, true)
	}
	l.tell(1, false)
	return true
}

// changed is the HTTP server's callback for the state of a connection.
func (l *connections) changed(of net.Conn, state http.ConnState) {
	if outer, is := of.(*tls.Conn); is {
		of = outer.NetConn()
	}
	c, is := of.(*conn)
	if !is {
		return
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	switch {
	case c.closed:
	case state == http.StateIdle && c.place == nil:
		c.begun()
		c.place = l.waiting.PushBack(c)
		c.waits.Store(true)
	case state == http.StateActive && c.place != nil:
		c.asks.Store(true)
		l.asking.Add(1)
		c.answered()
	}
}

// begun notes that a connection's request is being answered. It reports whether that is new.
func (c *conn) begun() bool {
	if !c.asks.CompareAndSwap(true, false) {
		return false
	}
	c.of.asking.Add(-1)
	return true
}

// handle wraps the handler of these connections.
func (l *connections) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, is := r.Context().Value(connKey{}).(*conn)
		if is && c.begun() && l.closing.Load() {
			l.turn.Lock()
			l.settle()
			l.turn.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// connKey is the key of the connection in the context of its requests.
type connKey struct{}

// context returns the context for a connection's requests.
func (l *connections) context(ctx context.Context, of net.Conn) context.Context {
	if outer, is := of.(*tls.Conn); is {
		of = outer.NetConn()
	}
	return context.WithValue(ctx, connKey{}, of)
}

// settle closes none if no connection waits or asks any more. The caller holds turn.
func (l *connections) settle() {
	if l.none != nil && l.waiting.Len() == 0 && l.asking.Load() == 0 {
		close(l.none)
		l.none = nil
	}
}

// answered removes a connection from those that wait.
func (c *conn) answered() {
	c.of.waiting.Remove(c.place)
	c.place = nil
	c.waits.Store(false)
	c.of.settle()
}

// forget removes a connection from the count, once.
func (c *conn) forget() {
	c.closed = true
	c.of.open--
	c.begun()
	if c.place != nil {
		c.answered()
	}
	c.of.settle()
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.turn.Lock()
	first := !c.closed
	if first {
		c.forget()
	}
	c.of.turn.Unlock()
	if first {
		c.of.tell(-1, false)
	}
	return c.Conn.Close()
}

// CloseWrite ends the sending to the client.
func (c *conn) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read reads from the client. If the client has to leave, it reads only what is on its way.
func (c *conn) Read(p []byte) (n int, err error) {
	if !c.leaving.Load() || !c.waits.Load() {
		n, err = c.Conn.Read(p)
		if !c.leaving.Load() || !c.waits.Load() || !sys.IsTimeout(err) { // net/http ends each request with a time-out
			return n, err
		}
	}
	if err := c.Conn.SetReadDeadline(time.Now().Add(lastLook)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// idle returns a channel that is closed once no connection waits for its client or for an answer to begin.
func (l *connections) idle() <-chan struct{} {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.none == nil {
		l.none = make(chan struct{})
	}
	none := l.none
	l.settle()
	return none
}

// leave ends the connections that wait for their clients, except if a request is on its way.
func (l *connections) leave() {
	l.turn.Lock()
	defer l.turn.Unlock()
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		c.leaving.Store(true)
		c.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	}
}

// count returns the number of open connections.
func (l *connections) count() int {
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.open
}
