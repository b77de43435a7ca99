package envoy

import (
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// pace is how many frames a second a connection may send that are no whole calls. Beyond it, it is read more slowly:
// grpc-go takes a flood of them as it comes, and honest clients have what it leaves.
const pace = 5000

// door makes connections of a listener report their calls, and bounds their frames.
type door struct {
	net.Listener
	server *Server
}

// Accept implements [net.Listener].
func (d *door) Accept() (net.Conn, error) {
	inner, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, server: d.server, rest: len(http2.ClientPreface), spare: pace}
	d.server.silent.Store(c, nil)
	return c, nil
}

// conn is a connection, and what the calls on it know about it.
type conn struct {
	net.Conn
	server *Server

	// Of the frames that were read; for the goroutine that reads.
	head  []byte // of the next frame, if a part of it was read
	rest  int    // the bytes that are left of the last frame
	spare int    // how many frames it may send at once
	at    time.Time

	mu    sync.Mutex
	calls int // under way
}

// Read implements [net.Conn].
func (c *conn) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if n == 0 {
		return n, err
	}
	c.server.silent.Delete(c)
	c.count(to[:n])
	if c.spare < 0 {
		time.Sleep(-time.Duration(c.spare) * time.Second / pace)
	}
	return n, err
}

// count counts the frames in data.
func (c *conn) count(data []byte) {
	const headBytes = 9
	now := time.Now()
	c.spare = min(pace, c.spare+int(min(now.Sub(c.at), time.Minute)*pace/time.Second))
	c.at = now
	for len(data) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(data))
			data, c.rest = data[n:], c.rest-n
			continue
		}
		n := min(headBytes-len(c.head), len(data))
		c.head, data = append(c.head, data[:n]...), data[n:]
		if len(c.head) < headBytes {
			return
		}
		c.rest = int(c.head[0])<<16 | int(c.head[1])<<8 | int(c.head[2])
		kind, flags := http2.FrameType(c.head[3]), http2.Flags(c.head[4])
		c.head = c.head[:0]
		switch {
		case kind == http2.FrameData && flags.Has(http2.FlagDataEndStream):
			c.spare += 2 // a whole call, whose headers took one
		case kind == http2.FrameRSTStream:
			c.spare -= 2
		case kind == http2.FrameSettings:
			c.spare -= 1 + c.rest/6
		default:
			c.spare--
		}
	}
	c.spare = min(c.spare, pace)
}

// call notes that a call has begun, or ended if change is below 0.
func (c *conn) call(change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.calls
	c.calls += change
	switch {
	case c.server.onState == nil:
	case before == 0:
		c.server.onState(c.Conn, http.StateActive)
	case c.calls == 0:
		c.server.onState(c.Conn, http.StateIdle)
	}
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.server.silent.Delete(c)
	return c.Conn.Close()
}

// AuthType implements [credentials.AuthInfo].
func (c *conn) AuthType() string { return "" }

// introduction lets calls find their connection.
type introduction struct {
	credentials.TransportCredentials
}

// ServerHandshake implements [credentials.TransportCredentials].
func (introduction) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, raw.(*conn), nil
}
