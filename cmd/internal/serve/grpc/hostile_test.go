package grpc

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// quick are time bounds for which a test can wait.
var quick = Bounds{Stall: 200 * time.Millisecond, Idle: 300 * time.Millisecond}

// answers checks that the server still answers an honest client.
func answers(t *testing.T, address net.Addr) {
	t.Helper()
	c := dial(t, address)
	c.call(1, "/a/Upper", "abc")
	if got := c.answerTo(1); got.status != "0" {
		t.Errorf("an honest client is answered %+v", got)
	}
}

// Whatever a client does, it loses only its call or its connection, and others are answered.
func TestHostileClients(t *testing.T) {
	flood := func(c *client, send func(i int) error) {
		for i := range 1 << 20 {
			if send(i) != nil {
				return
			}
		}
	}
	for _, test := range []struct {
		name string
		send func(c *client)
		code http2.ErrCode
		why  string
	}{
		{"pings", func(c *client) { flood(c, func(int) error { return c.WritePing(false, [8]byte{}) }) },
			http2.ErrCodeEnhanceYourCalm, "too_many_pings"},
		{"empty data", func(c *client) {
			c.begin(1, "/a/Upper")
			flood(c, func(int) error { return c.WriteData(1, false, nil) })
		}, http2.ErrCodeEnhanceYourCalm, "too many empty DATA frames"},
		{"malformed calls", func(c *client) {
			flood(c, func(i int) error {
				c.begin(uint32(2*i+3), "/a/Upper", "connection", "close")
				return c.WriteData(uint32(2*i+3), true, nil)
			})
		}, http2.ErrCodeEnhanceYourCalm, "too many malformed frames"},
		{"continuations", func(c *client) {
			c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			flood(c, func(int) error { return c.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 10_000)) })
		}, http2.ErrCodeProtocol, ""},
		{"a giant header block", func(c *client) { c.begin(1, "/a/Upper", "x", strings.Repeat("y", 1<<20)) },
			http2.ErrCodeCompression, ""},
		{"a frame that is too large", func(c *client) {
			c.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, frameBytes+1))
		}, http2.ErrCodeFrameSize, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, address := start(t, Options{Methods: methods, Bounds: Bounds{MessageBytes: 64 << 10, Stall: patience, Idle: patience}})
			c := dial(t, address)
			c.AllowIllegalWrites = true
			sent := make(chan bool)
			go func() { test.send(c); close(sent) }()
			got := c.answerTo(1)
			if !got.ended || got.code != test.code && got.goneAway {
				t.Errorf("answered %+v", got)
			}
			if got.goneAway && test.why != "" && got.why != test.why {
				t.Errorf("the client is told %q, not %q", got.why, test.why)
			}
			c.conn.Close()
			<-sent
			answers(t, address)
		})
	}
}

func TestMessagesAndHeadersThatAreTooLargeAreRefused(t *testing.T) {
	_, address := start(t, Options{Methods: methods, Bounds: Bounds{MessageBytes: 1000}})
	c := dial(t, address)
	c.begin(1, "/a/Upper")
	c.WriteData(1, false, framed(strings.Repeat("m", 1001))[:10])
	if got := c.answerTo(1); got.status != "8" || got.text != "the message is too large" {
		t.Errorf("a message is answered %+v", got)
	}
	var fields []string
	for range 20 {
		fields = append(fields, "x", strings.Repeat("y", 900))
	}
	c.begin(3, "/a/Upper", fields...)
	if got := c.answerTo(3); got.status != "8" || got.text != "the headers are too large" {
		t.Errorf("headers are answered %+v", got)
	}
	c.call(5, "/a/Upper", strings.Repeat("m", 1000))
	if got := c.answerTo(5); got.status != "0" {
		t.Errorf("the largest message is answered %+v", got)
	}
}

// Requests that do not end, silent clients, and clients that do not read are tolerated for a bounded time.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	big := func(_ context.Context, _, r []byte) ([]byte, error) { return append(r, make([]byte, 1<<20)...), nil }
	server, address := start(t, Options{Methods: map[string]Method{"/a/Upper": upper, "/a/Big": big}, Bounds: quick})
	silent, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := dial(t, address)
	c.begin(1, "/a/Upper")
	c.WriteData(1, false, framed("abc")[:6])
	if got := c.answerTo(1); got.status != "4" {
		t.Errorf("a request that does not end is answered %+v", got)
	}
	noWindow := dial(t, address, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	noWindow.call(1, "/a/Big", "x")
	if got := noWindow.answerTo(1); !got.ended || got.status != "" {
		t.Errorf("who opens no window is answered %+v", got)
	}
	silent.SetReadDeadline(time.Now().Add(patience))
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		// The server's preface comes at once; after it comes the end.
		for err == nil {
			_, err = silent.Read(make([]byte, 100))
		}
	}
	if got := c.answerTo(3); !got.ended || !got.goneAway || got.code != http2.ErrCodeNo {
		t.Errorf("an idle connection ends with %+v", got)
	}
	for deadline := time.Now().Add(patience); len(server.connections()) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", len(server.connections()))
		}
	}
	answers(t, address)
}

// A call that its client resets counts until its method has ended.
func TestResetCallsCount(t *testing.T) {
	release := make(chan bool)
	_, address := start(t, Options{Bounds: Bounds{Streams: 2}, Methods: map[string]Method{
		"/a/Stuck": func(_ context.Context, _, r []byte) ([]byte, error) { <-release; return r, nil }, "/a/Upper": upper}})
	c := dial(t, address)
	for i := range uint32(2) {
		c.call(2*i+1, "/a/Stuck", "x")
		c.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	c.call(5, "/a/Upper", "x")
	if got := c.answerTo(5); !got.reset || got.code != http2.ErrCodeRefusedStream {
		t.Errorf("answered %+v", got)
	}
	close(release)
}

// A method that panics or hangs affects only its own calls.
func TestASickMethodHoldsUpNobody(t *testing.T) {
	release := make(chan bool)
	defer close(release)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	places, bugs := &places{most: 2}, make(chan error, 1)
	server := New(Options{Gate: places, OnBug: func(err error) { bugs <- err }, Methods: map[string]Method{
		"/a/Upper": upper,
		"/a/Panic": func(context.Context, []byte, []byte) ([]byte, error) { panic("a secret") },
		"/a/Hang":  func(_ context.Context, _, r []byte) ([]byte, error) { <-release; return r, nil },
	}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	c := dial(t, listener.Addr())
	c.call(1, "/a/Hang", "x")
	for i := range uint32(5) {
		c.call(4*i+3, "/a/Panic", "x")
		if got := c.answerTo(4*i + 3); got.status != "13" || got.text != "internal error" {
			t.Errorf("a panic is answered %+v", got)
		}
		if err := <-bugs; !strings.Contains(err.Error(), "a secret") {
			t.Errorf("told was %v", err)
		}
		c.call(4*i+5, "/a/Upper", "x")
		if got := c.answerTo(4*i + 5); got.status != "0" {
			t.Errorf("the next call is answered %+v", got)
		}
	}
}

// places is a gate with that many places.
type places struct {
	most  int64
	taken atomic.Int64
}

func (p *places) Enter() bool {
	if p.taken.Add(1) > p.most {
		p.taken.Add(-1)
		return false
	}
	return true
}

func (p *places) Leave() { p.taken.Add(-1) }

// gate lets nobody in.
type gate struct{}

func (gate) Enter() bool { return false }
func (gate) Leave()      { panic("who did not enter leaves") }

func TestTheGateAndTheBufferAreBounds(t *testing.T) {
	_, address := start(t, Options{Methods: methods, Gate: gate{}, Bounds: Bounds{BufferedBytes: 100}})
	c := dial(t, address)
	c.call(1, "/a/Upper", "x")
	if got := c.answerTo(1); got.status != "14" || got.text != "too many calls at once" {
		t.Errorf("answered %+v", got)
	}
	c.begin(3, "/a/Upper")
	c.WriteData(3, false, framed(strings.Repeat("x", 60)))
	c.begin(5, "/a/Upper")
	c.WriteData(5, false, framed(strings.Repeat("x", 60)))
	if got := c.answerTo(5); got.status != "8" {
		t.Errorf("answered %+v", got)
	}
}

// A client of grpc-go pings about once for each answer, to measure how much it can be sent. That is no flood,
// however many calls it makes.
func TestAPingForEachAnswerIsNoFlood(t *testing.T) {
	_, address := start(t, Options{Methods: methods, Bounds: Bounds{Stall: time.Hour}}) // so that no sweep happens
	c := dial(t, address)
	for i := range uint32(3 * idleFrames) {
		c.call(2*i+1, "/a/Upper", "x")
		c.WritePing(false, [8]byte{})
		if got := c.answerTo(2*i + 1); got.status != "0" {
			t.Fatalf("call %d is answered %+v", i, got)
		}
	}
}
