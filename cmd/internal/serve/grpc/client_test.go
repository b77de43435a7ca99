package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// patience is a bound for what takes no time, however busy the machine is.
const patience = 30 * time.Second

// client speaks HTTP/2 frame by frame, so that it can break the rules.
type client struct {
	*http2.Framer
	t      testing.TB
	conn   net.Conn
	header bytes.Buffer
	fields *hpack.Encoder
}

// start serves methods on a new listener until the test ends. prepare get the server before it serves.
func start(t testing.TB, options Options, prepare ...func(*Server)) (*Server, net.Addr) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options.OnBug = func(err error) { t.Errorf("a bug: %v", err) }
	server := New(options)
	for _, each := range prepare {
		each(server)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return server, listener.Addr()
}

// dial connects, and sends the preface and these settings.
func dial(t testing.TB, address net.Addr, settings ...http2.Setting) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, http2.ClientPreface)
	c := &client{Framer: http2.NewFramer(conn, conn), t: t, conn: conn}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fields = hpack.NewEncoder(&c.header)
	c.WriteSettings(settings...)
	return c
}

// begin sends the headers of a call, with additional fields.
func (c *client) begin(stream uint32, path string, more ...string) {
	c.headers(stream, false, append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)...)
}

func (c *client) headers(stream uint32, last bool, fields ...string) {
	c.header.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.fields.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := c.header.Bytes()
	first := block[:min(len(block), frameBytes)]
	block = block[len(first):]
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(block) == 0, EndStream: last})
	for len(block) > 0 {
		next := block[:min(len(block), frameBytes)]
		block = block[len(next):]
		c.WriteContinuation(stream, len(block) == 0, next)
	}
}

// call sends a whole call.
func (c *client) call(stream uint32, path, message string) {
	c.begin(stream, path)
	c.WriteData(stream, true, framed(message))
}

func framed(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// answer is the answer to a call.
type answer struct {
	message         string
	status, text    string
	encodings       string // that the server takes, if it says so
	reset           bool
	code            http2.ErrCode // of reset, or of the end of the connection
	goneAway, ended bool          // the connection ended
	why             string        // it ended
}

// answerTo reads until the call is answered or the connection has ended.
func (c *client) answerTo(stream uint32) (a answer) {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			if network, is := errors.AsType[net.Error](err); is && network.Timeout() {
				c.t.Fatal("no answer")
			}
			a.ended = true
			return a
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID != stream {
				continue
			}
			for _, field := range frame.Fields {
				switch field.Name {
				case "grpc-status":
					a.status = field.Value
				case "grpc-message":
					a.text = field.Value
				case "grpc-accept-encoding":
					a.encodings = field.Value
				}
			}
			if status := frame.PseudoValue("status"); status != "" && status != "200" {
				a.status = "http " + status
			}
			if frame.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			if frame.StreamID == stream {
				a.message += string(frame.Data())
				if frame.StreamEnded() {
					return a
				}
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				a.reset, a.code = true, frame.ErrCode
				return a
			}
		case *http2.GoAwayFrame:
			a.goneAway, a.code, a.why = true, frame.ErrCode, string(frame.DebugData())
		}
	}
}

// upper answers a message in upper case.
func upper(_ context.Context, request, response []byte) ([]byte, error) {
	return append(response, strings.ToUpper(string(request))...), nil
}

var methods = map[string]Method{
	"/a/Upper": upper,
	"/a/Deny": func(context.Context, []byte, []byte) ([]byte, error) {
		return nil, &Status{FailedPrecondition, "100 % is\ntoo much"}
	},
	"/a/Wait": func(ctx context.Context, _, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, &Status{DeadlineExceeded, ctx.Err().Error()}
	},
}
