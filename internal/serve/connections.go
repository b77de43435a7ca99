package serve

import (
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/serve/refusal"
)

// connections is a listener that bounds the number of open connections. Beyond the bound the one that has waited
// longest for its client is closed, so that idle, silent or slow clients keep nobody out. It is the new one if all
// others have a request under way.
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
	asks   bool          // the header of a request was read
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

// CloseWrite lets a client that still sends read an answer to the end.
func (c *conn) CloseWrite() error {
	if half, can := c.Conn.(interface{ CloseWrite() error }); can {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// answers removes a connection from those that wait.
func (c *conn) answers() {
	if c.place != nil {
		c.of.waiting.Remove(c.place)
		c.place = nil
	}
}

// connOf returns the connection below TLS.
func connOf(of net.Conn) *conn {
	if outer, is := of.(*tls.Conn); is {
		of = outer.NetConn()
	}
	return of.(*conn)
}

// changed is the HTTP server's callback for the state of a connection.
func (l *connections) changed(of net.Conn, state http.ConnState) {
	c := connOf(of)
	l.turn.Lock()
	defer l.turn.Unlock()
	c.asks = state == http.StateActive
	if state == http.StateIdle && !c.closed {
		c.answers()
		c.place = l.waiting.PushBack(c)
	}
}

// connKey is the key of the connection in the context of its requests.
type connKey struct{}

// handle wraps the handler of these connections: a connection waits for its client until the body of a request was
// read. Clients of a server that drains get the hint to use another connection.
func (l *connections) handle(next http.Handler, health *Health) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if health.Draining() {
			w.Header().Set("Connection", "close")
		}
		body := &awaited{r.Body, r.Context().Value(connKey{}).(*conn)}
		if r.Body == http.NoBody {
			body.arrived()
		} else {
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// awaited is a body that the server waits for.
type awaited struct {
	io.ReadCloser
	of *conn
}

// Read implements [io.Reader].
func (b *awaited) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil {
		b.arrived()
	}
	return n, err
}

func (b *awaited) arrived() {
	b.of.of.turn.Lock()
	defer b.of.of.turn.Unlock()
	b.of.answers()
}

// lastLook is the time in which a client that has to leave can finish sending.
const lastLook = 50 * time.Millisecond

// leave ends the connections without a request, unless one arrives within lastLook.
func (l *connections) leave() {
	l.eachIdle(func(c *conn) { c.SetReadDeadline(time.Now().Add(lastLook)) })
}

// count returns how many connections are open, and how many of them have no request.
func (l *connections) count() (open, idle int) {
	l.eachIdle(func(*conn) { idle++ })
	l.turn.Lock()
	defer l.turn.Unlock()
	return l.open, idle
}

// eachIdle calls do for each connection without a request.
func (l *connections) eachIdle(do func(*conn)) {
	l.turn.Lock()
	defer l.turn.Unlock()
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); !c.asks {
			do(c)
		}
	}
}

// Gate bounds the number of requests that are answered at the same time. One gate can be before several handlers. It is
// safe for concurrent use. A request should enter once its body was read, so that slow clients keep no others out.
type Gate struct {
	most     int64
	refused  func()
	inFlight atomic.Int64
}

// NewGate returns a gate for at most most requests at a time. refused is called for each request that it refuses.
func NewGate(most int, refused func()) *Gate { return &Gate{most: int64(most), refused: refused} }

// Enter reports whether a request may be answered. If so, the caller has to call Leave afterwards.
func (g *Gate) Enter() bool {
	if g.inFlight.Add(1) <= g.most {
		return true
	}
	g.inFlight.Add(-1)
	g.refused()
	return false
}

// Leave ends what Enter began.
func (g *Gate) Leave() { g.inFlight.Add(-1) }

// Inside returns how many requests are inside.
func (g *Gate) Inside() int64 { return g.inFlight.Load() }

// Pass lets a request of this gate into another one, which may be full; then it stays. Otherwise end brings it back.
func (g *Gate) Pass(to *Gate) (end func(), passed bool) {
	if !to.Enter() {
		return nil, false
	}
	g.Leave()
	return func() { g.inFlight.Add(1); to.Leave() }, true
}

// Admit is Enter for a request over HTTP, which it answers with 503 if it may not enter.
func (g *Gate) Admit(w http.ResponseWriter) bool {
	if g.Enter() {
		return true
	}
	w.Header().Set("Retry-After", "1")
	refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word,
		"too many requests in flight; this server answers "+strconv.FormatInt(g.most, 10)+
			" at a time (--max-in-flight)")
	return false
}

// Wrap lets requests to the next handler through the gate.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w) {
			defer g.Leave()
			next.ServeHTTP(w, r)
		}
	})
}
