package grpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/limitctl/limitctl/internal/panics"
)

const (
	// connectionWindow is how much a client may send ahead of what the server has read. The server gives it back in
	// halves.
	connectionWindow = 1 << 20
	defaultWindow    = 1<<16 - 1 // RFC 9113, section 6.9.2
	largestWindow    = 1<<31 - 1
	// frameBytes is the largest frame that either side sends, the default of HTTP/2.
	frameBytes = 1 << 14
	// unreadBytes is the most bytes of answers that are kept for a client that does not read them.
	unreadBytes = 4 << 20
	// fewBytes is how many of these a client may always leave unread.
	fewBytes = 16 << 10
	// idleFrames is how many frames without a request, such as pings, a client may send between two sweeps, in
	// addition to one for each answer: clients of grpc-go ping that often.
	idleFrames = 1000
	lastPing   = "limitctl" // the data of the ping that ends a drain
)

// conn is a connection. One goroutine reads, one writes, and each call has its own.
type conn struct {
	server *Server
	net    net.Conn
	opened time.Time
	age    time.Duration // after which it ends; 0 for never

	// Only for the goroutine that reads.
	buffered *bufio.Reader
	framer   *http2.Framer
	why      string // the reason for the end, which the client gets for debugging
	taken    int    // bytes of the connection's window that were not yet given back
	told     int    // this connection's part of server.unread

	wake chan struct{} // something has to be written, or the connection ends

	mu      sync.Mutex
	streams map[uint32]*stream
	watches uint32 // those of active that last; for a listener they do not keep a connection from being idle
	active  uint32 // calls that have begun and not ended, including those that the client has reset
	lastID  uint32
	begun   bool // the server's preface is written, so the client can be sent more
	ready   bool // the client's preface was read
	idle    int  // idleFrames since the last sweep
	lastUse time.Time

	out, spare    []byte
	writing       time.Time // since when the client has not read; zero if nothing waits
	window        int64     // what the server may send
	initialWindow int64     // the same for a new stream
	turns         []*stream // those that only the connection's window stops, the longest waiting first

	draining  time.Time // since when
	lastAsked bool      // the client knows that no call after lastID is answered
	closing   bool      // nothing is written after out
	dead      bool
}

func newConn(s *Server, accepted net.Conn) *conn {
	now := time.Now()
	c := &conn{
		server: s, net: accepted, opened: now, lastUse: now, wake: make(chan struct{}, 1), streams: map[uint32]*stream{},
		window: defaultWindow, initialWindow: defaultWindow,
	}
	if age := s.options.Bounds.Age; age > 0 {
		c.age = age - age/10 + rand.N(age/5+1)
	}
	c.buffered = bufio.NewReaderSize(accepted, frameBytes)
	c.framer = http2.NewFramer(nil, c.buffered)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(frameBytes)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = s.options.Bounds.HeaderBytes
	return c
}

// serve answers the calls of the connection until it ends.
func (c *conn) serve() error {
	// Until the preface is there, sweep bounds the time.
	if secured, is := c.net.(*tls.Conn); is {
		if err := secured.HandshakeContext(context.Background()); err != nil {
			return err
		}
		if secured.ConnectionState().NegotiatedProtocol != "h2" {
			return errors.New("the client does not speak HTTP/2")
		}
	}
	c.begin()
	written := make(chan struct{})
	panics.Go(c.write, func(err error) {
		c.server.told(err)
		c.kill()
		close(written)
	})
	err := c.read()
	c.tell(0)
	if failed, is := errors.AsType[http2.ConnectionError](err); is {
		if detail := c.framer.ErrorDetail(); c.why == "" && detail != nil {
			c.why = detail.Error()
		}
		c.abort(http2.ErrCode(failed), c.why)
	} else {
		c.kill()
	}
	c.cancelAll()
	<-written
	return err
}

// begin writes the server's preface.
func (c *conn) begin() {
	bounds := &c.server.options.Bounds
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	out := frames{&c.out}
	out.settings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: bounds.Streams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: bounds.HeaderBytes},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.streamWindow())},
	)
	out.windowUpdate(0, connectionWindow-defaultWindow)
	c.signal()
}

// streamWindow is how much a client may send for one call: a message with its prefix, and some padding.
func (c *conn) streamWindow() int { return c.server.options.Bounds.MessageBytes + prefixBytes + 1024 }

// signal wakes the goroutine that writes. The caller holds c.mu.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// read reads frames until the connection ends, and returns the cause, which is never nil.
func (c *conn) read() error {
	if err := c.readPreface(); err != nil {
		return err
	}
	for {
		frame, err := c.framer.ReadFrame()
		if failed, is := errors.AsType[http2.StreamError](err); is {
			err = c.refuse(failed)
		} else if err == nil {
			err = c.handle(frame)
		}
		if errors.Is(err, http2.ErrFrameTooLarge) {
			err = http2.ConnectionError(http2.ErrCodeFrameSize)
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) readPreface() error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.buffered, preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return errors.New("the client does not speak HTTP/2")
	}
	frame, err := c.framer.ReadFrame()
	if err != nil {
		return err
	}
	if _, is := frame.(*http2.SettingsFrame); !is {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	c.ready = true
	c.mu.Unlock()
	return c.handle(frame)
}

// handle handles a frame. An error ends the connection.
func (c *conn) handle(frame http2.Frame) error {
	if n := c.unread(); n > unreadBytes || c.tell(n) > c.server.options.Bounds.UnreadBytes && n > fewBytes {
		return errors.New("the client does not read its answers")
	}
	switch frame := frame.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(frame)
	case *http2.DataFrame:
		return c.data(frame)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle++; c.idle > idleFrames+int(c.active) {
		kind := frame.Header().Type
		if kind == http2.FramePing {
			return c.calm(tooManyPings)
		}
		return c.calm("too many frames of the kind " + kind.String())
	}
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		return c.settings(frame)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(frame)
	case *http2.RSTStreamFrame:
		if frame.StreamID > c.lastID && !c.lastAsked {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.idle-- // a client may give up any number of calls; other bounds limit their cost
		c.reset(c.streams[frame.StreamID])
	case *http2.PingFrame:
		if !frame.IsAck() {
			frames{&c.out}.ping(true, frame.Data)
			c.signal()
		} else if string(frame.Data[:]) == lastPing && !c.draining.IsZero() {
			c.lastCall()
		}
	case *http2.PriorityFrame:
		if frame.StreamDep == frame.StreamID {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // priorities, a GOAWAY, and unknown frames
}

// tooManyPings is gRPC's text for too many pings. gRPC clients that read it ping less.
const tooManyPings = "too_many_pings"

// calm ends a connection whose client sends too many frames without a request.
func (c *conn) calm(why string) error {
	c.why = why
	return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
}

// unread is the number of bytes that are not yet written.
func (c *conn) unread() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out)
}

// tell reports this connection's unwritten bytes to the server, and returns those of all connections.
func (c *conn) tell(unread int) (all int64) {
	all = c.server.unread.Add(int64(unread - c.told))
	c.told = unread
	return all
}

// settings applies the client's settings. The caller holds c.mu.
func (c *conn) settings(frame *http2.SettingsFrame) error {
	if frame.IsAck() {
		return nil
	}
	// A frame can have a setting a thousand times, and a change of the initial window is work for all streams. So only the
	// last value takes effect.
	before := c.initialWindow
	err := frame.ForeachSetting(func(setting http2.Setting) error {
		if setting.ID == http2.SettingInitialWindowSize {
			c.initialWindow = int64(setting.Val)
		}
		return setting.Valid()
	})
	if err != nil {
		return err
	}
	if change := c.initialWindow - before; change != 0 {
		for _, s := range c.streams {
			if s.window += change; s.window > largestWindow {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
		}
	}
	frames{&c.out}.settingsAck()
	for _, s := range c.streams {
		if s.blocked {
			c.send(s)
		}
	}
	c.signal()
	return nil
}

// windowUpdate allows more to be sent. The caller holds c.mu.
func (c *conn) windowUpdate(frame *http2.WindowUpdateFrame) error {
	if frame.StreamID == 0 {
		if c.window += int64(frame.Increment); c.window > largestWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.idle-- // as many as there are answers
		c.sendWaiting()
		return nil
	}
	if frame.StreamID > c.lastID && !c.lastAsked {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	s := c.streams[frame.StreamID]
	if s == nil {
		return nil
	}
	if s.window += int64(frame.Increment); s.window > largestWindow {
		c.resetWith(s, http2.ErrCodeFlowControl)
		return nil
	}
	if s.blocked {
		c.send(s)
		c.signal()
	}
	return nil
}
