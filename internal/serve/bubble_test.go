package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a network in memory, in the virtual time of the test.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "test", Net: "unix"} }

// bubble is a server with one listener, in virtual time.
type bubble struct {
	t       *testing.T
	options Options
	pipes   *pipes
	stop    context.CancelFunc
	ended   chan error
}

// inBubble runs a test with a server. A leaked goroutine fails the test.
func inBubble(t *testing.T, listener Listener, options Options, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, options: options, ended: make(chan error, 1),
			pipes: &pipes{dialed: make(chan net.Conn), closed: make(chan struct{})}}
		if listener.MaxConnections == 0 {
			listener.MaxConnections = 100
		}
		b.options.Listeners = []Listener{listener}
		b.options.Log = slog.New(slog.DiscardHandler)
		if b.options.Connections == nil {
			b.options.Connections, b.options.ConnectionRefused = func(string, int) {}, func(string) {}
		}
		b.options.listen = func(Address) (net.Listener, error) { return b.pipes, nil }
		if b.options.Health == nil {
			b.options.Health = new(Health)
		}
		if b.options.Drain == 0 {
			b.options.Drain = 5 * time.Second
		}
		ctx, stop := context.WithCancel(t.Context())
		b.stop = stop
		go func() { b.ended <- Run(ctx, &b.options) }()
		test(b)
		stop()
		b.wait(nil)
		time.Sleep(5 * time.Second) // clients notice the end
	})
}

// wait waits for the server's end, once.
func (b *bubble) wait(want error) {
	b.t.Helper()
	if b.ended == nil {
		return
	}
	if err := <-b.ended; !errors.Is(err, want) {
		b.t.Errorf("the server ends with %v, want %v", err, want)
	}
	b.ended = nil
}

// client is one end of a connection to the server.
type client struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func (b *bubble) dial() *client {
	here, there := net.Pipe()
	b.pipes.dialed <- there
	return &client{here, b.t, bufio.NewReader(here)}
}

// send sends a text in the background, as far as the server reads it.
func (c *client) send(text string) { go io.WriteString(c, text) }

// trickle sends a text byte by byte, with a pause before each, until nobody reads.
func (c *client) trickle(text string, every time.Duration) {
	go func() {
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			time.Sleep(every)
		}
	}()
}

// answer reads an answer, and its body.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("half an answer: %v", err)
	}
	return response, string(body)
}

// checkLeft checks that the server closes the connection after a time.
func (c *client) checkLeft(after time.Duration) {
	c.t.Helper()
	begun := time.Now()
	if _, err := io.Copy(io.Discard, c.reader); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Errorf("the connection ends with %v", err)
	}
	if took := time.Since(begun); took < after-time.Second || took > after+time.Second {
		c.t.Errorf("the server waited for %s, want %s", took, after)
	}
	c.Close()
}

// get is a request without a body.
const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// echo answers with the request's body.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Write(body)
})

// endless answers without an end.
var endless = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	text := []byte(strings.Repeat("x", 4<<10))
	for {
		if _, err := w.Write(text); err != nil {
			return
		}
	}
})
