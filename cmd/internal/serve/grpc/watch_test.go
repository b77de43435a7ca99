package grpc

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// watching serves a health check that is ready as the variable says.
func watching(t *testing.T, bounds Bounds, prepare ...func(*Server)) (*Server, net.Addr, *atomic.Bool) {
	ready := new(atomic.Bool)
	ready.Store(true)
	check, watch := Health(ready.Load, "known")
	server, address := start(t, Options{Bounds: bounds, Methods: map[string]Method{HealthCheck: check, "/a/Upper": upper},
		Watches: map[string]Watch{HealthWatch: watch}}, prepare...)
	return server, address, ready
}

// about is a HealthCheckRequest.
func about(service string) string { return "\x0a" + string(rune(len(service))) + service }

// told reads the next message to a call.
func (c *client) told(stream uint32) string {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		if data, is := frame.(*http2.DataFrame); is && data.StreamID == stream {
			return string(data.Data())
		}
	}
}

// Whoever watches a service learns its state at once, and each change.
func TestHealthIsWatched(t *testing.T) {
	server, address, ready := watching(t, Bounds{Stall: time.Second})
	c := dial(t, address)
	c.call(1, HealthWatch, about("known"))
	if got := c.told(1); got != prefixed("\x08\x01") {
		t.Errorf("at first %q", got)
	}
	ready.Store(false)
	if got := c.told(1); got != prefixed("\x08\x02") {
		t.Errorf("then %q", got)
	}
	c.call(3, HealthWatch, about("other"))
	if got := c.told(3); got != prefixed("\x08\x03") {
		t.Errorf("an unknown service is %q", got)
	}
	ready.Store(true)
	if got := c.told(1); got != prefixed("\x08\x01") {
		t.Errorf("in the end %q", got)
	}
	// An end is not delayed by who watches, and is told.
	ready.Store(false)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	if got := c.answerTo(1); got.message != prefixed("\x08\x02") || got.status != "14" {
		t.Errorf("at the end it is told %+v", got)
	}
	c.conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// prefixed is a message as it is sent.
func prefixed(message string) string { return string(framed(message)) }

// A connection that only watches is idle, and may watch little.
func TestWatchesAreFewAndIdle(t *testing.T) {
	states := make(chan http.ConnState, 100)
	_, address, _ := watching(t, Bounds{}, func(server *Server) {
		server.ConnState(func(_ net.Conn, state http.ConnState) { states <- state })
	})
	c := dial(t, address)
	for i := range uint32(mostWatches) {
		c.call(2*i+1, HealthWatch, "")
		c.told(2*i + 1)
		if first, second := <-states, <-states; first != http.StateActive || second != http.StateIdle {
			t.Errorf("watch %d makes the connection %s, then %s", i+1, first, second)
		}
	}
	c.call(101, HealthWatch, "")
	if got := c.answerTo(101); got.status != "8" {
		t.Errorf("one more is answered %+v", got)
	}
	c.WriteRSTStream(1, http2.ErrCodeCancel)
	c.call(103, HealthWatch, "")
	if got := c.told(103); got != prefixed("\x08\x01") {
		t.Errorf("in place of one that ended: %q", got)
	}
	c.WriteRSTStream(3, http2.ErrCodeCancel)
	c.call(105, HealthWatch, "\xff")
	if got := c.answerTo(105); got.status != "3" {
		t.Errorf("what is no request is answered %+v", got)
	}
}

// A connection of a certain age gets no more calls, after those under way are answered, and a watch does not keep it.
func TestAConnectionAges(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := func(_ context.Context, _, response []byte) ([]byte, error) {
		close(begun)
		<-finish
		return response, nil
	}
	_, watch := Health(func() bool { return true }, "known")
	_, address := start(t, Options{Bounds: Bounds{Stall: time.Second, Age: time.Nanosecond}, Methods: map[string]Method{"/a/Slow": slow},
		Watches: map[string]Watch{HealthWatch: watch}})
	c := dial(t, address)
	c.call(1, "/a/Slow", "")
	<-begun
	for away := false; !away; {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		_, away = frame.(*http2.GoAwayFrame)
	}
	c.call(3, HealthWatch, about("known"))
	close(finish)
	if got := c.answerTo(1); got.status != "0" {
		t.Errorf("the call is answered %+v", got)
	}
	if got := c.answerTo(5); !got.ended || got.code != http2.ErrCodeNo { // the watch is read meanwhile
		t.Errorf("the connection does not end: %+v", got)
	}
}
