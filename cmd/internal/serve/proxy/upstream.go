package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Bounds of the connections to an upstream. The server bounds the number of requests under way.
const (
	dialTimeout     = 5 * time.Second
	idleTimeout     = time.Minute
	idleConnections = 256
	maxHeaderBytes  = 1 << 20 // of an answer
	bufferBytes     = 32 << 10
)

// Upstream is the server that gets the requests.
type Upstream struct {
	url    *url.URL
	socket string // path of a unix socket, or empty
	h2c    bool   // it speaks HTTP/2 without TLS
}

// ParseUpstream reads http://HOST[:PORT][/PREFIX], https://…, h2c://… or unix:/PATH/OF/SOCKET. An error is a
// [store.ErrInvalid].
func ParseUpstream(text string) (*Upstream, error) {
	if path, is := strings.CutPrefix(text, "unix:"); is {
		path = strings.TrimPrefix(path, "//")
		if !strings.HasPrefix(path, "/") {
			return nil, store.Invalidf("the upstream's socket %q needs a path that begins with /, such as unix:/run/app.sock", path)
		}
		return &Upstream{url: &url.URL{Scheme: "http", Host: "localhost"}, socket: path}, nil
	}
	rest, h2c := strings.CutPrefix(text, "h2c://")
	if h2c {
		text = "http://" + rest
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, store.Invalidf("the upstream must be an address such as http://127.0.0.1:3000, https://app.internal, " +
			"h2c://127.0.0.1:3000 or unix:/run/app.sock")
	case u.User != nil:
		return nil, store.Invalidf("the upstream's address may not hold a user or password; clients' own are passed on")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, store.Invalidf("the upstream's address %q ends with its path; it may have no ? and no #", text)
	}
	return &Upstream{url: u, h2c: h2c}, nil
}

// String returns the address in the form that ParseUpstream reads.
func (u *Upstream) String() string {
	if u.socket != "" {
		return "unix:" + u.socket
	}
	if u.h2c {
		return "h2c" + strings.TrimPrefix(u.url.String(), "http")
	}
	return u.url.String()
}

// transport keeps connections to the upstream. It uses no other proxy, and does not compress or decompress bodies.
func (u *Upstream) transport(timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: min(dialTimeout, timeout)}
	t := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    min(dialTimeout, timeout),
		ResponseHeaderTimeout:  timeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
	}
	if u.h2c {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: idleTimeout / 4, PingTimeout: timeout}
	}
	if u.socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.socket)
		}
	}
	return t
}

// sentBody is the body of the upstream's request. If the upstream answers before the body's end, net/http drops the rest over
// HTTP/1.1. A transport that is told of that as an error drops the answer, too. So it learns nothing until it has no more use for
// the body, or the answer has ended.
type sentBody struct {
	io.ReadCloser
	closing sync.Once
	closed  chan struct{}
	ended   <-chan struct{}
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		select {
		case <-b.closed:
		case <-b.ended:
		}
	}
	return n, err
}

// Close ends the reading.
func (b *sentBody) Close() error {
	b.closing.Do(func() { close(b.closed) })
	return b.ReadCloser.Close()
}

// buffers are for copying bodies.
type buffers struct{ pool sync.Pool }

// Get returns a buffer, which can contain old data.
func (b *buffers) Get() []byte {
	if buffer, is := b.pool.Get().(*[bufferBytes]byte); is {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put takes a buffer back.
func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }
