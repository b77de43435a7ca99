package envoy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/tier"
)

// patience is a bound for what takes no time, however busy the machine is.
const patience = 30 * time.Second

// start serves the service with those answers on a new listener, until the test ends.
func start(t *testing.T, answer func(context.Context, []byte) ([]byte, error), o Options) (*Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	tier.Must(t, err)
	if o.Time == 0 {
		o.Time = patience
	}
	if o.Calls == 0 {
		o.Calls = 100
	}
	server, ended := newServer(answer, o), make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return server, listener.Addr().String()
}

// connect returns a connection of grpc-go, which has no TLS if security is nil.
func connect(t *testing.T, address string, security credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	if security == nil {
		security = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rls.Codec{})))
	tier.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask calls a method with a message.
func ask(t *testing.T, conn *grpc.ClientConn, path, message string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var answer []byte
	err := conn.Invoke(ctx, path, []byte(message), &answer)
	return string(answer), err
}

// client speaks HTTP/2 frame by frame, so that it can break the rules.
type client struct {
	*http2.Framer
	t      *testing.T
	conn   net.Conn
	header bytes.Buffer
	fields *hpack.Encoder
}

// dial connects, and sends the preface and empty settings.
func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	tier.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, http2.ClientPreface)
	c := &client{Framer: http2.NewFramer(conn, conn), t: t, conn: conn}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fields = hpack.NewEncoder(&c.header)
	c.WriteSettings()
	return c
}

// begin sends the headers of a call, with additional fields.
func (c *client) begin(stream uint32, more ...string) {
	c.header.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", rls.Method, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		c.fields.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	block := c.header.Bytes()
	const most = 1 << 14
	first := block[:min(len(block), most)]
	block = block[len(first):]
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(block) == 0})
	for len(block) > 0 {
		next := block[:min(len(block), most)]
		block = block[len(next):]
		c.WriteContinuation(stream, len(block) == 0, next)
	}
}

// call sends a whole call.
func (c *client) call(stream uint32, message string) {
	c.begin(stream)
	c.WriteData(stream, true, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// answer is the end of a call.
type answer struct {
	status string
	reset  bool
	code   http2.ErrCode // of reset, or of the end of the connection
	why    string        // the connection ended
	ended  bool
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
			if frame.StreamID == stream && frame.StreamEnded() {
				for _, field := range frame.RegularFields() {
					if field.Name == "grpc-status" {
						a.status = field.Value
					}
				}
				return a
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				a.reset, a.code = true, frame.ErrCode
				return a
			}
		case *http2.GoAwayFrame:
			a.code, a.why = frame.ErrCode, string(frame.DebugData())
		}
	}
}
