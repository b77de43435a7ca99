package grpc

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

// write writes pending bytes until the connection ends.
func (c *conn) write() error {
	for range c.wake {
		runtime.Gosched() // so that calls that were decided together share one write
		for {
			c.mu.Lock()
			out := c.out
			if c.dead {
				c.mu.Unlock()
				return nil
			}
			if len(out) == 0 {
				closing := c.closing
				c.mu.Unlock()
				if closing {
					c.hangUp()
					return nil
				}
				break
			}
			c.out, c.spare = c.spare[:0], nil
			c.writing = time.Now()
			c.mu.Unlock()
			_, err := c.net.Write(out)
			c.mu.Lock()
			c.writing = time.Time{}
			if cap(out) <= 64<<10 {
				c.spare = out[:0]
			}
			c.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// hangUp ends the connection so that the client can still read what was written: closing a connection with unread
// input would discard that.
func (c *conn) hangUp() {
	half, is := c.net.(interface{ CloseWrite() error })
	if !is || half.CloseWrite() != nil {
		return
	}
	c.net.SetReadDeadline(time.Now().Add(time.Second))
	plain := c.net
	if secured, is := plain.(interface{ NetConn() net.Conn }); is {
		plain = secured.NetConn()
	}
	io.CopyN(io.Discard, plain, connectionWindow)
}

// kill closes the connection and cancels its calls.
func (c *conn) kill() {
	c.mu.Lock()
	c.dead = true
	c.signal()
	c.mu.Unlock()
	c.net.Close()
	c.cancelAll()
}

// abort sends the client the reason for the end, and then ends the connection.
func (c *conn) abort(code http2.ErrCode, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames{&c.out}.goAway(c.lastID, code, why)
	c.closing = true
	c.signal()
}

// cancelAll cancels the calls that are being decided.
func (c *conn) cancelAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		c.reset(s)
	}
}

// drain announces the end of the server to the client. What the client has already sent is answered: the answer to
// a ping shows that it has read the announcement.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.draining.IsZero() {
		return
	}
	c.draining = time.Now()
	out := frames{&c.out}
	out.goAway(largestWindow, http2.ErrCodeNo, "")
	out.ping(false, [8]byte([]byte(lastPing)))
	c.endWatches()
	c.signal()
}

// lastCall announces the last call that will be answered. The caller holds c.mu.
func (c *conn) lastCall() {
	if c.lastAsked {
		return
	}
	c.lastAsked = true
	frames{&c.out}.goAway(c.lastID, http2.ErrCodeNo, "")
	c.signal()
	c.endDrain()
}

// state reports whether the connection has calls. The caller holds c.mu.
func (c *conn) state(state http.ConnState) {
	if c.server.onState != nil {
		c.server.onState(c.net, state)
	}
}

// less ends a call. The caller holds c.mu.
func (c *conn) less() {
	if c.active--; c.active == c.watches {
		c.state(http.StateIdle)
	}
	c.endDrain()
}

// endDrain ends a connection whose last call was answered. The caller holds c.mu.
func (c *conn) endDrain() {
	if c.lastAsked && c.active == 0 {
		c.closing = true
		c.signal()
	}
}

// sweep ends what takes too long.
func (c *conn) sweep(now time.Time) {
	bounds := &c.server.options.Bounds
	late := func(since time.Time) bool { return now.Sub(since) > bounds.Stall }
	c.mu.Lock()
	c.idle = 0
	kill := !c.ready && late(c.opened) || !c.writing.IsZero() && late(c.writing)
	for _, s := range c.streams {
		switch {
		case s.blocked && late(s.opened):
			kill = true
		case !s.started && late(s.opened) && s.http != "":
			c.answerHTTP(s)
		case !s.started && late(s.opened):
			c.refuseCall(s, &Status{DeadlineExceeded, "the request took too long to arrive"})
		case s.state != nil && !s.blocked:
			c.tellState(s)
		}
	}
	unused := c.active == 0 && now.Sub(c.lastUse) > bounds.Idle
	if (unused || c.age > 0 && now.Sub(c.opened) > c.age) && c.draining.IsZero() {
		c.mu.Unlock()
		c.drain()
		c.mu.Lock()
	}
	// A client that does not answer the ping gets the last call without it. One that is still in its handshake
	// cannot get anything, and has sent no call.
	if !c.draining.IsZero() && now.Sub(c.draining) > min(bounds.Stall, time.Second) {
		c.lastCall()
		kill = kill || !c.begun
	}
	c.mu.Unlock()
	if kill {
		c.kill()
	}
}
