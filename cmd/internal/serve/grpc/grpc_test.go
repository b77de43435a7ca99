package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestCallsAreAnswered(t *testing.T) {
	_, address := start(t, Options{Methods: methods, Bounds: Bounds{MessageBytes: 1 << 20}})
	c := dial(t, address)
	for i, test := range []struct {
		path, message, status, text, answer string
	}{
		{"/a/Upper", "abc", "0", "", "ABC"},
		{"/a/Upper", "", "0", "", ""},
		{"/a/Deny", "x", "9", "100 %25 is%0Atoo much", ""},
		{"/a/None", "x", "12", "unknown method", ""},
	} {
		stream := uint32(2*i + 1)
		c.call(stream, test.path, test.message)
		want := answer{status: test.status, text: test.text}
		if test.status == "0" {
			want.message = string(framed(test.answer))
		}
		if got := c.answerTo(stream); got != want {
			t.Errorf("%s %q is answered %+v, not %+v", test.path, test.message, got, want)
		}
	}
}

// A request lacks none of its fields, and has as much data as it says.
func TestMalformedRequests(t *testing.T) {
	_, address := start(t, Options{Methods: methods})
	usual := []string{":method", "POST", ":scheme", "http", ":path", "/a/Upper", "content-type", "application/grpc", "te", "trailers"}
	for name, fields := range map[string][]string{
		"no method": usual[2:], "no scheme": append(append([]string{}, usual[:2]...), usual[4:]...),
		"no path": append(append([]string{}, usual[:4]...), usual[6:]...), "an empty path": append([]string{":path", ""}, usual[:4]...),
		"too little data": append(append([]string{}, usual...), "content-length", "7"),
		"too much data":   append(append([]string{}, usual...), "content-length", "5"),
		"not gRPC":        append(append([]string{}, usual[:6]...), "content-length", "7"),
	} {
		c := dial(t, address)
		c.headers(1, false, fields...)
		c.WriteData(1, true, framed("x"))
		if got := c.answerTo(1); !got.reset || got.code != http2.ErrCodeProtocol {
			t.Errorf("%s: answered %+v", name, got)
		}
		c.headers(3, false, append(append([]string{}, usual...), "content-length", "6")...)
		c.WriteData(3, true, framed("x"))
		if got := c.answerTo(3); got.status != "0" {
			t.Errorf("after %s another call is answered %+v", name, got)
		}
	}
}

// With Admits, a call needs what that wants, unless its method is open. OnCall gets each call once, also if it is refused.
func TestCallsNeedWhatAdmitsThemAndAreTold(t *testing.T) {
	calls, codes := make(chan *Call, 10), make(chan Code, 10)
	admits := func(values []string) *Status {
		if len(values) == 1 && values[0] == "Bearer x" {
			return nil
		}
		return &Status{Unauthenticated, "no"}
	}
	_, address := start(t, Options{Methods: methods, Admits: admits, Open: map[string]bool{"/a/Deny": true},
		OnCall: func(c *Call) { calls <- c },
		OnEnd:  func(code Code) { codes <- code }, Caller: func(values []string) string { return strings.Join(values, "+") }})
	c := dial(t, address)
	for i, test := range []struct {
		path, tokens string
		code         Code
	}{
		{"/a/Upper", "Bearer x", OK}, {"/a/Upper", "", Unauthenticated}, {"/a/Upper", "Bearer y", Unauthenticated},
		{"/a/Upper", "Bearer x+Bearer x", Unauthenticated}, {"/a/None", "", Unauthenticated}, {"/a/None", "Bearer x", Unimplemented},
		{"/a/Deny", "", FailedPrecondition},
	} {
		stream, fields := uint32(2*i+1), []string(nil)
		for _, token := range strings.FieldsFunc(test.tokens, func(r rune) bool { return r == '+' }) {
			fields = append(fields, "authorization", token)
		}
		c.begin(stream, test.path, fields...)
		c.WriteData(stream, true, framed("x"))
		c.answerTo(stream)
		got := <-calls
		if got.Path != test.path || got.Code != test.code || got.Caller != test.tokens || got.Took < 0 || got.Took > time.Hour ||
			got.From.String() != c.conn.LocalAddr().String() || <-codes != test.code {
			t.Errorf("%s by %q is told as %+v", test.path, test.tokens, got)
		}
	}
	if len(calls) > 0 {
		t.Errorf("more calls are told: %+v", <-calls)
	}
}

func TestWhatIsNotACallOfGRPC(t *testing.T) {
	_, address := start(t, Options{Methods: methods})
	for _, test := range []struct {
		name string
		send func(c *client)
		want answer
	}{
		{"GET", func(c *client) {
			c.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/a/Upper", "content-type", "application/grpc")
		}, answer{status: "http 405", message: string(notGRPC)}},
		{"HEAD", func(c *client) {
			c.headers(1, true, ":method", "HEAD", ":scheme", "http", ":path", "/", ":authority", "x")
		}, answer{status: "http 405"}},
		{"JSON", func(c *client) {
			c.headers(1, true, ":method", "POST", ":scheme", "http", ":path", "/a/Upper", "content-type", "application/json")
		}, answer{status: "http 415", message: string(notGRPC)}},
		{"no message", func(c *client) {
			c.begin(1, "/a/Upper")
			c.WriteData(1, true, nil)
		}, answer{status: "13", text: "the request has no message"}},
		{"two messages", func(c *client) {
			c.begin(1, "/a/Upper")
			c.WriteData(1, true, append(framed("a"), framed("b")...))
		}, answer{status: "13", text: "the request is not one message"}},
		{"a message that is cut", func(c *client) {
			c.begin(1, "/a/Upper")
			c.WriteData(1, true, framed("abc")[:6])
		}, answer{status: "13", text: "the request is not one message"}},
		{"compressed", func(c *client) {
			c.begin(1, "/a/Upper")
			c.WriteData(1, true, []byte("\x01\x00\x00\x00\x01a"))
		}, answer{status: "12", text: "the message is compressed; send it as it is", encodings: "identity"}},
		{"a format of messages", func(c *client) {
			c.headers(1, false, ":method", "POST", ":scheme", "http", ":path", "/a/Upper", "content-type", "application/grpc+proto")
			c.WriteData(1, true, framed("a"))
		}, answer{status: "0", message: string(framed("A"))}},
		{"a bad timeout", func(c *client) { c.begin(1, "/a/Upper", "grpc-timeout", "1h") },
			answer{status: "13", text: "grpc-timeout is not valid; it is up to 8 digits and H, M, S, m, u or n"}},
		{"trailers", func(c *client) {
			c.begin(1, "/a/Upper")
			c.WriteData(1, false, framed("a"))
			c.headers(1, true, "trailer", "x")
		}, answer{status: "0", message: string(framed("A"))}},
	} {
		c := dial(t, address)
		test.send(c)
		if got := c.answerTo(1); got != test.want {
			t.Errorf("%s: %+v, not %+v", test.name, got, test.want)
		}
		c.call(3, "/a/Upper", "x")
		if got := c.answerTo(3); got.status != "0" {
			t.Errorf("%s: the next call is answered %+v", test.name, got)
		}
	}
}

func TestDeadlinesAndResetsReachTheMethod(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan error, 1)
	_, address := start(t, Options{Methods: map[string]Method{
		"/a/Wait": methods["/a/Wait"],
		"/a/Tell": func(ctx context.Context, _, r []byte) ([]byte, error) {
			begun <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return r, nil
		},
	}})
	c := dial(t, address)
	c.begin(1, "/a/Wait", "grpc-timeout", "20m")
	c.WriteData(1, true, framed("x"))
	if got := c.answerTo(1); got.status != "4" || got.text != "context deadline exceeded" {
		t.Errorf("answered %+v", got)
	}
	c.call(3, "/a/Tell", "x")
	<-begun
	c.WriteRSTStream(3, http2.ErrCodeCancel)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the method is told %v", err)
	}
	c.call(5, "/a/Tell", "x")
	<-begun
	c.conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("when the client has gone, the method is told %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"20m": 20 * time.Millisecond, "1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4u": 4 * time.Microsecond,
		"5n": 5, "0S": 1, "99999999H": 24 * time.Hour, "": 0, "m": 0, "1": 0, "1x": 0, "-1S": 0, "123456789S": 0, "1.5S": 0,
	} {
		if got, ok := parseTimeout(text); got != want || ok != (want > 0) {
			t.Errorf("%q is %v, %t", text, got, ok)
		}
	}
}

// All calls that a client sent before it could know of the end are answered, including those that are still being
// decided.
func TestShutdownLosesNoCall(t *testing.T) {
	begun, go_ := make(chan bool, 100), make(chan bool)
	server, address := start(t, Options{Methods: map[string]Method{"/a/Slow": func(_ context.Context, _, r []byte) ([]byte, error) {
		begun <- true
		<-go_
		return append(r, 'x'), nil
	}}})
	c := dial(t, address)
	c.call(1, "/a/Slow", "x")
	<-begun
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	for goneAway := false; !goneAway; {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		_, goneAway = frame.(*http2.GoAwayFrame)
	}
	c.call(3, "/a/Slow", "x") // sent before the ping is answered
	frame, err := c.ReadFrame()
	if ping, is := frame.(*http2.PingFrame); !is {
		t.Fatalf("%v, %v", frame, err)
	} else {
		c.WritePing(true, ping.Data)
	}
	<-begun
	close(go_)
	seen := map[uint32]string{}
	for len(seen) < 2 {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if frame, is := frame.(*http2.MetaHeadersFrame); is && frame.StreamEnded() {
			seen[frame.StreamID] = frame.Fields[0].Value
		}
	}
	if seen[1] != "0" || seen[3] != "0" {
		t.Errorf("the calls ended with %v", seen)
	}
	c.conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLong(t *testing.T) {
	server, address := start(t, Options{Methods: methods})
	c := dial(t, address)
	c.call(1, "/a/Upper", "x")
	c.answerTo(1)
	c.call(3, "/a/Wait", "x")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	server.Close()
	if got := c.answerTo(3); !got.ended {
		t.Errorf("answered %+v", got)
	}
}

func TestOverTLS(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	config := certified.TLS.Clone()
	config.NextProtos = []string{"h2"}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{Methods: methods})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(tls.NewListener(inner, config)) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	for i := range 3 {
		request, _ := http.NewRequest("POST", "https://"+inner.Addr().String()+"/a/Upper",
			strings.NewReader(string(framed("a"+strconv.Itoa(i)))))
		request.Header.Set("Content-Type", "application/grpc")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 100)
		n, _ := response.Body.Read(body)
		response.Body.Read(body)
		if string(body[:n]) != string(framed("A"+strconv.Itoa(i))) || response.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("answered %q, %v", body[:n], response.Trailer)
		}
	}
	transport.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
