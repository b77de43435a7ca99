package endpoint

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/panics"
)

// http1 is a client of HTTP/1.1. It writes a request and reads its answer in the caller's goroutine, over its own
// connections. A [http.Transport] uses two goroutines for each connection, which doubles the time of an exchange;
// and it repeats some requests when a connection was lost, which a limit would count twice. [http.ReadResponse]
// parses the answers.
type http1 struct {
	*httpTarget
	dialed
	request *http.Request // for parsing the answers
	mu      sync.Mutex
	free    []*conn // the last ones were used most recently, and are used first
	closed  bool
}

// dialed opens connections, and measures the time.
type dialed struct {
	dialer  *net.Dialer
	openMu  sync.Mutex
	connect *hdrhistogram.Histogram
	tls     *hdrhistogram.Histogram
	long    atomic.Int64
}

func newDialed(host string) dialed {
	h := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }
	return dialed{dialer: dialer(host), connect: h(), tls: h()}
}

// Openings implements [Connected].
func (d *dialed) Openings() Openings {
	d.openMu.Lock()
	defer d.openMu.Unlock()
	return Openings{
		Count: d.connect.TotalCount(), LongBodies: d.long.Load(),
		Connect: hdrhistogram.Import(d.connect.Export()), TLS: hdrhistogram.Import(d.tls.Export()),
	}
}

// open opens a connection to a target, with TLS if needed. The error is ready for the caller.
func (d *dialed) open(ctx context.Context, t *httpTarget) (net.Conn, error) {
	begin := time.Now()
	conn, err := d.dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, failed(ctx, connecting, err)
	}
	connected, encrypted := time.Now(), time.Time{}
	if t.tls != nil {
		secure := tls.Client(conn, t.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, failed(ctx, encrypting, err)
		}
		conn, encrypted = secure, time.Now()
	}
	d.openMu.Lock()
	defer d.openMu.Unlock()
	recordMicroseconds(d.connect, connected.Sub(begin))
	if !encrypted.IsZero() {
		recordMicroseconds(d.tls, encrypted.Sub(connected))
	}
	return conn, nil
}

func recordMicroseconds(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max((d+time.Microsecond-1).Microseconds(), 0), h.HighestTrackableValue()))
}

// Bounds of the parts of an answer that are read.
const (
	// maxHead is the most bytes of an answer's headers, including interim answers.
	maxHead = 64 << 10
	// maxBody is the most bytes of an answer's body that are read so that its connection can be reused.
	maxBody = 1 << 20
	// maxInterims is the most interim answers (1xx) before the answer.
	maxInterims = 8
	// inOneWrite is the longest request that is written before its answer is read.
	inOneWrite = 32 << 10
)

func newHTTP1(t *httpTarget) *http1 {
	return &http1{httpTarget: t, dialed: newDialed(t.url.Hostname()), request: &http.Request{Method: t.Method}}
}

// conn is a connection to an endpoint, used by one request at a time.
type conn struct {
	net.Conn
	source source
	in     *bufio.Reader // of source
	out    []byte
	body   []byte
	// ctx is the context of the last request, whose end stops reads and writes. Several requests in a row can have
	// the same.
	ctx     context.Context
	unwatch func() bool
	// bound guards which request the deadline is for.
	bound   sync.Mutex
	watched int
}

// source reads from a connection up to a bound. It records why it ended, because [http.ReadResponse] can then
// accept the beginning of a line as all of it.
type source struct {
	conn net.Conn
	left int64
	err  error
}

// Read implements [io.Reader].
func (s *source) Read(to []byte) (n int, err error) {
	if s.left <= 0 {
		return 0, io.EOF
	}
	n, err = s.conn.Read(to[:min(int64(len(to)), s.left)])
	s.left -= int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

// get returns an open connection.
func (c *http1) get(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		n := len(c.free)
		if n == 0 {
			c.mu.Unlock()
			break
		}
		one := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		switch open, unasked := one.look(); {
		case unasked:
			one.drop()
			return nil, failed(ctx, connecting, errGreeting)
		case open:
			return one, nil
		}
		one.drop()
	}
	opened, err := c.open(ctx, c.httpTarget)
	if err != nil {
		return nil, err
	}
	one := &conn{Conn: opened, source: source{conn: opened}}
	one.in = bufio.NewReaderSize(&one.source, 4<<10)
	return one, nil
}

// put keeps a connection for another request.
func (c *http1) put(one *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		one.drop()
		return
	}
	c.free = append(c.free, one)
}

// drop closes a connection for good.
func (c *conn) drop() {
	if c.unwatch != nil {
		c.unwatch()
	}
	c.Close()
}

// watch makes the end of a context end reads and writes of the connection.
func (c *conn) watch(ctx context.Context, timeout time.Duration) {
	if c.ctx == ctx && ctx.Done() != nil {
		if _, bounded := ctx.Deadline(); bounded {
			return // as for the request before
		}
	}
	if c.unwatch != nil {
		c.unwatch()
	}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(timeout)
	}
	c.bound.Lock()
	defer c.bound.Unlock()
	c.watched++
	this := c.watched
	_ = c.SetDeadline(deadline)
	c.ctx, c.unwatch = ctx, nil
	if ctx.Done() != nil {
		c.unwatch = context.AfterFunc(ctx, func() {
			c.bound.Lock()
			defer c.bound.Unlock()
			if c.watched == this { // otherwise it is already for another request
				_ = c.SetDeadline(time.Unix(1, 0))
			}
		})
	}
}

// Connect implements [Client]. The first request uses the connection.
func (c *http1) Connect(ctx context.Context) error {
	one, err := c.get(ctx)
	if err != nil {
		return err
	}
	if c.NoKeepAlive {
		one.drop()
		return nil
	}
	c.put(one)
	return nil
}

// Close implements [Client].
func (c *http1) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, one := range c.free {
		one.drop()
	}
	c.free = nil
	return nil
}

// Send implements [Client].
func (c *http1) Send(ctx context.Context, subject string, cost int64, answer *Answer) error {
	*answer = Answer{}
	if err := ctx.Err(); err != nil {
		return failed(ctx, connecting, err)
	}
	one, err := c.get(ctx)
	if err != nil {
		return err
	}
	one.watch(ctx, c.timeout())
	one.out = c.appendRequest(one.out[:0], one, subject, cost)
	answer.Sent = time.Now()
	keep, err := one.exchange(ctx, c, answer)
	if err != nil || !keep || c.NoKeepAlive {
		one.drop()
	} else {
		c.put(one)
	}
	if err != nil {
		return err
	}
	answer.Outcome = c.outcomeOf(answer.Status)
	return nil
}

func (t *httpTarget) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return unlimited
}

// appendRequest appends the bytes of a request.
func (c *http1) appendRequest(to []byte, one *conn, subject string, cost int64) []byte {
	to = append(append(to, c.Method...), ' ')
	to = c.target.append(to, subject, cost)
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), c.host...), "\r\n"...)
	for i := range c.headers {
		h := &c.headers[i]
		to = append(append(to, h.name...), ": "...)
		to = append(h.value.append(to, subject, cost), "\r\n"...)
	}
	if c.NoKeepAlive {
		to = append(to, "Connection: close\r\n"...)
	}
	if c.hasBody {
		one.body = c.body.append(one.body[:0], subject, cost)
		to = append(to, "Content-Length: "...)
		to = append(strconv.AppendInt(to, int64(len(one.body)), 10), "\r\n\r\n"...)
		return append(to, one.body...)
	}
	if c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch {
		to = append(to, "Content-Length: 0\r\n"...)
	}
	return append(to, "\r\n"...)
}

// exchange writes the request and reads its answer. keep says whether the connection can be reused.
func (c *conn) exchange(ctx context.Context, client *http1, answer *Answer) (keep bool, err error) {
	if len(c.out) > inOneWrite {
		// A server can answer, and stop reading, before it has the whole of a long request.
		written := make(chan error, 1)
		panics.Go(func() error { _, err := c.Write(c.out); return err }, func(err error) { written <- err })
		keep, err = c.read(ctx, client, answer)
		if err != nil || !keep {
			c.Close() // ends the write
		}
		return keep, joinWrite(ctx, err, <-written, answer)
	}
	_, failure := c.Write(c.out)
	// A server that closes the connection may have answered before.
	keep, err = c.read(ctx, client, answer)
	return keep && failure == nil, joinWrite(ctx, err, failure, answer)
}

// joinWrite returns the error of a request: a write error matters only without an answer.
func joinWrite(ctx context.Context, read, write error, answer *Answer) error {
	if read != nil && write != nil && answer.Answered.IsZero() {
		return failed(ctx, writing, write)
	}
	return read
}
