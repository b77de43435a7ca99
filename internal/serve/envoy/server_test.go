package envoy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/tier"
)

// upper answers a message in upper case, and some in another way.
func upper(ctx context.Context, message []byte) ([]byte, error) {
	switch string(message) {
	case "deny":
		return nil, status.Error(codes.FailedPrecondition, "100 % is\ntoo much")
	case "bug":
		return nil, errors.New("a secret")
	case "panic":
		panic("a secret")
	case "wait":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return bytes.ToUpper(message), nil
}

func TestCallsAreAnswered(t *testing.T) {
	bugs := make(chan error, 1)
	_, address := start(t, upper, Options{OnBug: func(err error) { bugs <- err }})
	conn := connect(t, address, nil)
	for _, test := range []struct {
		path, message, answer string
		code                  codes.Code
		text                  string
	}{
		{rls.Method, "abc", "ABC", codes.OK, ""},
		{rls.Method, "", "", codes.OK, ""},
		{rls.Method, "deny", "", codes.FailedPrecondition, "100 % is\ntoo much"},
		{rls.Method, "bug", "", codes.Internal, "internal error"},
		{rls.Method, "panic", "", codes.Internal, "internal error"},
		{rls.Method, strings.Repeat("x", messageBytes+1), "", codes.ResourceExhausted,
			"grpc: received message larger than max (262145 vs. 262144)"},
		{rls.Method, strings.Repeat("X", messageBytes), strings.Repeat("X", messageBytes), codes.OK, ""},
		{"/a/None", "x", "", codes.Unimplemented, "unknown method"},
	} {
		got, err := ask(t, conn, test.path, test.message)
		if got != test.answer || status.Code(err) != test.code || status.Convert(err).Message() != test.text {
			t.Errorf("%s %.10q is answered %.10q, %v", test.path, test.message, got, err)
		}
	}
	if err := <-bugs; !strings.Contains(err.Error(), "a secret") || len(bugs) > 0 {
		t.Errorf("the bug is %v, and there are %d more", err, len(bugs))
	}
}

// With Admits, a call needs what that wants, unless its service is open. OnCall gets each call once, also if it is
// refused.
func TestCallsNeedWhatAdmitsThemAndAreTold(t *testing.T) {
	calls := make(chan string, 10)
	admits := func(values []string) error {
		if len(values) == 1 && values[0] == "Bearer x" {
			return nil
		}
		return status.Error(codes.ResourceExhausted, "no")
	}
	_, address := start(t, upper, Options{Admits: admits, OnCall: func(path string, code codes.Code, took time.Duration,
		from string, values []string) {
		from, _, _ = strings.Cut(from, ":")
		calls <- fmt.Sprint(path, " ", code, took >= 0, from, strings.Join(values, "+"))
	}})
	conn := connect(t, address, nil)
	for _, test := range []struct {
		path, tokens string
		code         codes.Code
	}{
		{rls.Method, "Bearer x", codes.OK}, {rls.Method, "", codes.ResourceExhausted},
		{rls.Method, "Bearer y", codes.ResourceExhausted},
		{rls.Method, "Bearer x+Bearer x", codes.ResourceExhausted},
		{"/a/None", "", codes.ResourceExhausted}, {"/a/None", "Bearer x", codes.Unimplemented},
		{healthpb.Health_Check_FullMethodName, "", codes.OK},
	} {
		ctx := t.Context()
		for token := range strings.SplitSeq(test.tokens, "+") {
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
			}
		}
		var answer []byte
		err := conn.Invoke(ctx, test.path, []byte{}, &answer)
		got := <-calls
		if status.Code(err) != test.code ||
			got != fmt.Sprint(test.path, " ", test.code, true, "127.0.0.1", test.tokens) {
			t.Errorf("%s by %q ends with %v and is told as %+v", test.path, test.tokens, err, got)
		}
	}
	if len(calls) > 0 {
		t.Error("more calls are told")
	}
}

// A request that does not end, and a decision that does not, take a bounded time, and nobody waits for longer.
func TestACallTakesABoundedTime(t *testing.T) {
	_, address := start(t, upper, Options{Time: 50 * time.Millisecond})
	c := dial(t, address)
	c.begin(1)
	if got := c.answerTo(1); got.status != "4" {
		t.Errorf("a request that does not end is answered %+v", got)
	}
	if _, err := ask(t, connect(t, address, nil), rls.Method, "wait"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a decision that does not end is answered %v", err)
	}
}

// Each connection has a part of the calls under way, also if its client resets them, so that it cannot take all.
func TestAConnectionHasAPartOfTheCalls(t *testing.T) {
	release := make(chan bool)
	var running, most atomic.Int64
	_, address := start(t, func(_ context.Context, message []byte) ([]byte, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		if string(message) == "stuck" {
			<-release
		}
		return message, nil
	}, Options{Calls: 3})
	c := dial(t, address)
	for {
		frame, err := c.ReadFrame()
		tier.Must(t, err)
		settings, is := frame.(*http2.SettingsFrame)
		if !is || settings.IsAck() {
			continue
		}
		if n, has := settings.Value(http2.SettingMaxConcurrentStreams); !has || n != 3 {
			t.Errorf("the client is told of %d calls", n)
		}
		break
	}
	for i := range uint32(100) {
		c.call(2*i+1, "stuck")
		c.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}
	for running.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	if got, err := ask(t, connect(t, address, nil), rls.Method, "x"); got != "x" || err != nil {
		t.Errorf("another connection is answered %q, %v", got, err)
	}
	if n := most.Load(); n > 4 {
		t.Errorf("%d calls of one connection were under way", n-1)
	}
	close(release)
}

func TestTheGateIsABound(t *testing.T) {
	_, address := start(t, upper, Options{Gate: serve.NewGate(0, func() {})})
	conn := connect(t, address, nil)
	if _, err := ask(t, conn, rls.Method, "x"); status.Code(err) != codes.Unavailable {
		t.Errorf("answered %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a health check is answered %v", err)
	}
}

// Whatever a client does, it loses only its call or its connection, and others are answered.
func TestHostileClients(t *testing.T) {
	for _, test := range []struct {
		name string
		send func(c *client)
		want answer
	}{
		{"pings", func(c *client) {
			for c.WritePing(false, [8]byte{}) == nil {
			}
		}, answer{code: http2.ErrCodeEnhanceYourCalm, why: "too_many_pings", ended: true}},
		{"large headers", func(c *client) { c.begin(1, "x", strings.Repeat("y", headerBytes)) },
			answer{reset: true, code: http2.ErrCodeFrameSize}},
		{"a giant header block", func(c *client) { c.begin(1, "x", strings.Repeat("y", 1<<20)) }, answer{ended: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, address := start(t, upper, Options{})
			c := dial(t, address)
			sent := make(chan bool)
			go func() { test.send(c); close(sent) }()
			// The end of a connection can discard its reason.
			if got := c.answerTo(1); got != test.want && !(got.ended && test.want.ended) {
				t.Errorf("answered %+v", got)
			}
			c.conn.Close()
			<-sent
			if got, err := ask(t, connect(t, address, nil), rls.Method, "x"); got != "X" {
				t.Errorf("an honest client is answered %q, %v", got, err)
			}
		})
	}
}

// Whoever watches a service learns its state at once, and that the server ends. The end does not wait for that.
func TestHealth(t *testing.T) {
	server, address := start(t, upper, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := healthpb.NewHealthClient(connect(t, address, nil))
	serves := func(r *healthpb.HealthCheckResponse) bool {
		return r.GetStatus() == healthpb.HealthCheckResponse_SERVING
	}
	for name, want := range map[string]codes.Code{
		"": codes.OK, service: codes.OK, peerService: codes.OK, "other": codes.NotFound,
	} {
		request := &healthpb.HealthCheckRequest{Service: name}
		got, err := client.Check(t.Context(), request)
		if status.Code(err) != want || serves(got) != (want == codes.OK) {
			t.Errorf("the health of %q is %v, %v", name, got, err)
		}
		watch, err := client.Watch(ctx, request)
		tier.Must(t, err)
		got, err = watch.Recv()
		if status.Code(err) != want || serves(got) != (want == codes.OK) {
			t.Errorf("who watches %q is told %v, %v", name, got, err)
		}
		if name != peerService {
			continue
		}
		defer func() {
			server.Draining()
			if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
				t.Errorf("at the end who watches is told %v, %v", got, err)
			}
			if err := server.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("in the end who watches is told %v", err)
			}
		}()
	}
}

// Streams that last are bounded, and a new one has the place of one that has ended.
func TestStreamsThatLastAreBounded(t *testing.T) {
	server, address := start(t, upper, Options{})
	for range mostLasting - 1 {
		server.lasting <- struct{}{}
	}
	client := healthpb.NewHealthClient(connect(t, address, nil))
	watch := func(ctx context.Context) error {
		stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := watch(ctx); err != nil {
		t.Error(err)
	}
	if err := watch(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more is answered %v", err)
	}
	cancel()
	server.lasting <- struct{}{} // once the first has ended
}

// Reflection is answered if it is asked for, without authorization, about all services.
func TestReflection(t *testing.T) {
	for _, on := range []bool{true, false} {
		closed := func([]string) error { return status.Error(codes.Unauthenticated, "no") }
		_, address := start(t, upper, Options{Reflection: on, Admits: closed})
		client := grpc_reflection_v1.NewServerReflectionClient(connect(t, address, nil))
		stream, err := client.ServerReflectionInfo(t.Context())
		tier.Must(t, err)
		stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
		answer, err := stream.Recv()
		names := ""
		for _, each := range answer.GetListServicesResponse().GetService() {
			names += each.Name + " "
		}
		want := map[bool]string{true: service + " grpc.health.v1.Health grpc.reflection.v1.ServerReflection " +
			"grpc.reflection.v1alpha.ServerReflection "}[on]
		if names != want || (status.Code(err) == codes.Unauthenticated) == on {
			t.Errorf("with reflection %t the services are %q, %v", on, names, err)
		}
	}
}

// All calls that a client sent before it could know of the end are answered, including those that are still being
// decided.
func TestShutdownLosesNoCall(t *testing.T) {
	begun, release := make(chan bool, 2), make(chan bool)
	server, address := start(t, func(_ context.Context, message []byte) ([]byte, error) {
		begun <- true
		<-release
		return message, nil
	}, Options{})
	c := dial(t, address)
	c.call(1, "x")
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- server.Shutdown(context.Background()) }()
	seen := map[uint32]bool{}
	for len(seen) < 2 {
		frame, err := c.ReadFrame()
		tier.Must(t, err)
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			if frame.LastStreamID == 1<<31-1 {
				c.call(3, "x") // sent before the ping is answered
			}
		case *http2.PingFrame:
			c.WritePing(true, frame.Data)
			<-begun
			close(release)
		case *http2.MetaHeadersFrame:
			if frame.StreamEnded() && frame.RegularFields()[0].Value == "0" {
				seen[frame.StreamID] = true
			}
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLong(t *testing.T) {
	server, address := start(t, upper, Options{})
	c := dial(t, address)
	c.call(1, "x")
	c.answerTo(1)
	c.call(3, "wait")
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

// A connection of a certain age gets no more calls, after those under way are answered.
func TestAConnectionAges(t *testing.T) {
	release := make(chan bool)
	_, address := start(t, func(_ context.Context, message []byte) ([]byte, error) {
		<-release
		return message, nil
	}, Options{Age: time.Millisecond})
	c := dial(t, address)
	c.call(1, "x")
	for away := false; !away; {
		frame, err := c.ReadFrame()
		tier.Must(t, err)
		_, away = frame.(*http2.GoAwayFrame)
	}
	close(release)
	if got := c.answerTo(1); got.status != "0" {
		t.Errorf("the call is answered %+v", got)
	}
}

func TestOverTLS(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	config := certified.TLS.Clone()
	config.NextProtos = []string{"h2"}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	tier.Must(t, err)
	server := newServer(upper, Options{Time: patience, Calls: 10})
	go server.Serve(tls.NewListener(inner, config))
	defer server.Close()
	conn := connect(t, inner.Addr().String(), credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	if got, err := ask(t, conn, rls.Method, "a"); got != "A" {
		t.Errorf("answered %q, %v", got, err)
	}
}

// A connection is active while it has a call, so that the listener does not close it for another.
func TestConnectionsReportTheirCalls(t *testing.T) {
	states, begun, release := make(chan http.ConnState, 10), make(chan bool, 2), make(chan bool)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	tier.Must(t, err)
	server := newServer(func(context.Context, []byte) ([]byte, error) {
		begun <- true
		<-release
		return nil, nil
	}, Options{Time: patience, Calls: 10})
	server.ConnState(func(_ net.Conn, state http.ConnState) { states <- state })
	go server.Serve(listener)
	defer server.Close()
	c := dial(t, listener.Addr().String())
	c.call(1, "x")
	c.call(3, "x")
	if got := <-states; got != http.StateActive {
		t.Errorf("the first call makes it %s", got)
	}
	<-begun
	<-begun // or the first could end before the second begins
	close(release)
	select {
	case got := <-states:
		if got != http.StateIdle || len(states) > 0 {
			t.Errorf("the last call makes it %s, and then there are %d", got, len(states))
		}
	case <-time.After(patience):
		t.Error("it stays active")
	}
}

// A client that connects and says nothing does not delay the end.
func TestASilentConnectionDoesNotDelayTheEnd(t *testing.T) {
	server, address := start(t, upper, Options{})
	silent, err := net.Dial("tcp", address)
	tier.Must(t, err)
	defer silent.Close()
	for n := 0; n == 0; time.Sleep(time.Millisecond) {
		server.silent.Range(func(any, any) bool { n++; return true })
	}
	begun := time.Now()
	if err := server.Shutdown(t.Context()); err != nil || time.Since(begun) > handshakeTime/2 {
		t.Errorf("the end took %s: %v", time.Since(begun), err)
	}
}

// frames is a connection that has these bytes again and again, some at a time.
type frames struct {
	net.Conn
	data []byte
	next int
}

func (f *frames) Read(to []byte) (int, error) {
	n := copy(to, f.data[f.next%len(f.data):])
	f.next += n
	return n, nil
}

// What is no whole call is read at a pace, and calls with what belongs to them at once.
func TestFloodsAreReadAtAPace(t *testing.T) {
	for name, test := range map[string]struct {
		write   func(f *http2.Framer)
		seconds float64 // for 100,000 frames or calls
	}{
		"window updates": {func(f *http2.Framer) { f.WriteWindowUpdate(0, 1) }, 100_000/pace - 1},
		"settings": {func(f *http2.Framer) { f.WriteSettings(make([]http2.Setting, 99)...) },
			100*100_000/pace - 1},
		"calls": {func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: true})
			f.WriteData(1, true, make([]byte, 100))
			f.WritePing(false, [8]byte{})
		}, 0},
		"calls that are reset": {func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: true})
			f.WriteData(1, true, make([]byte, 100))
			f.WriteRSTStream(1, http2.ErrCodeCancel)
		}, 100_000/pace - 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var data bytes.Buffer
			f := http2.NewFramer(&data, nil)
			f.AllowIllegalWrites = true
			test.write(f)
			c := &conn{Conn: &frames{data: data.Bytes()}, server: &Server{}, spare: pace, at: time.Now()}
			begun, whole := time.Now(), 100_000*data.Len()
			for n := 0; n < whole; {
				read, _ := c.Read(make([]byte, min(1000, whole-n)))
				n += read
			}
			if got := time.Since(begun).Seconds(); math.Abs(got-test.seconds) > 1 {
				t.Errorf("%s take %.1f s, not %.1f", name, got, test.seconds)
			}
		})
	}
}
