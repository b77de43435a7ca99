package endpoint

import (
	"bufio"
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// http1 is a client of HTTP/1.1. Idle connections, buffers and the parser of answers are fasthttp's. The exchange is
// not its Do: that does not say when a request was written, and cannot be ended before its deadline.
type http1 struct {
	*httpTarget
	host *fasthttp.HostClient
}

// Bounds of the parts of an answer that are read.
const (
	// maxHead is the most bytes of an answer's headers.
	maxHead = 64 << 10
	// maxBody is the most bytes of an answer's body that are read so that its connection can be reused.
	maxBody = 1 << 20
)

func newHTTP1(t *httpTarget) *http1 {
	c := &http1{httpTarget: t}
	c.host = &fasthttp.HostClient{
		ConnPoolStrategy: fasthttp.LIFO, MaxConns: math.MaxInt, MaxIdleConnDuration: time.Minute,
		ReadBufferSize: maxHead,
		DialTimeout: func(_ string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := store.BudgetContext(context.Background(), timeout)
			defer cancel()
			conn, err := t.open(ctx)
			if err != nil {
				return nil, err
			}
			return &connection{Conn: conn, isIdle: idleness(conn)}, nil
		},
	}
	return c
}

// Connect implements [Client]. The first request uses the connection.
func (c *http1) Connect(ctx context.Context) error {
	return c.onConnection(ctx, func(net.Conn) (bool, error) { return true, nil })
}

// Close implements [Client].
func (c *http1) Close() error {
	c.host.CloseIdleConnections()
	return nil
}

// Send implements [Client].
func (c *http1) Send(ctx context.Context, subject string, cost int64, answer *Answer) error {
	*answer = Answer{}
	return c.onConnection(ctx, func(conn net.Conn) (keep bool, err error) {
		answer.Sent = time.Now()
		out := c.host.AcquireWriter(conn)
		_, _ = out.Write(c.appendRequest(out.AvailableBuffer(), subject, cost))
		wrong := out.Flush()
		c.host.ReleaseWriter(out)
		if wrong != nil && sys.IsTimeout(wrong) {
			return false, failed(ctx, awaiting, wrong)
		}
		// A server that closes the connection may have answered before.
		keep, err = c.read(ctx, conn, answer)
		return keep && wrong == nil, err
	})
}

// onConnection calls a function with a connection that the server has not closed, once. The connection is kept for
// another request if the function says so.
func (c *http1) onConnection(ctx context.Context, use func(net.Conn) (keep bool, err error)) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for ctx.Err() == nil {
		held, err := c.host.AcquireConn(max(time.Until(deadline), 1), c.NoKeepAlive)
		if err != nil {
			return failed(ctx, connecting, err)
		}
		conn := held.Conn().(*connection)
		if isUsed := !held.LastUseTime().IsZero(); isUsed && !conn.isIdle() {
			c.host.CloseConn(held)
			continue
		}
		conn.endWith(ctx, deadline)
		keep, err := use(conn)
		if keep && !c.NoKeepAlive && ctx.Err() == nil {
			c.host.ReleaseConn(held)
		} else {
			c.host.CloseConn(held)
		}
		return err
	}
	return failed(ctx, connecting, ctx.Err())
}

// connection is a connection and the context of its last request. Contexts are shared by many requests, so most find
// theirs in place.
type connection struct {
	net.Conn
	isIdle func() bool

	mu      sync.Mutex
	ctx     context.Context
	unwatch func() bool
}

// endWith ends reading and writing when ctx ends, whose deadline is given.
func (c *connection) endWith(ctx context.Context, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == ctx {
		return
	}
	if c.unwatch != nil {
		c.unwatch()
	}
	c.ctx = ctx
	_ = c.SetDeadline(deadline)
	c.unwatch = context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ctx == ctx { // and no later request has begun
			_ = c.SetDeadline(time.Unix(1, 0))
		}
	})
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwatch != nil {
		c.unwatch()
	}
	return c.Conn.Close()
}

// appendRequest appends the bytes of a request.
func (c *http1) appendRequest(to []byte, subject string, cost int64) []byte {
	to = c.target.append(append(append(to, c.Method...), ' '), subject, cost)
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), c.httpTarget.host...), "\r\n"...)
	for i := range c.headers {
		to = append(append(to, c.headers[i].name...), ": "...)
		to = append(c.headers[i].value.append(to, subject, cost), "\r\n"...)
	}
	if c.NoKeepAlive {
		to = append(to, "Connection: close\r\n"...)
	}
	body := c.body.append(nil, subject, cost)
	if c.Body != "" || c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch {
		to = append(strconv.AppendInt(append(to, "Content-Length: "...), int64(len(body)), 10), "\r\n"...)
	}
	return append(append(to, "\r\n"...), body...)
}

// read reads an answer. keep says whether the connection can be reused.
func (c *http1) read(ctx context.Context, conn net.Conn, answer *Answer) (keep bool, err error) {
	in := c.host.AcquireReader(conn)
	defer c.host.ReleaseReader(in)
	response := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(response)
	if _, err := in.Peek(1); err != nil {
		return false, failed(ctx, awaiting, err)
	}
	response.SkipBody = true
	err = response.ReadLimitBody(in, 0) // the head, after interim answers
	status := response.StatusCode()
	if tooLong := (*fasthttp.ErrSmallBuffer)(nil); errors.As(err, &tooLong) {
		err = errLongHead
	} else if err == nil && status < 200 { // such as 101 Switching Protocols
		err = errProtocol
	}
	if err != nil {
		return false, failed(ctx, reading, err)
	}
	answered := time.Now()
	isLong := false
	if c.Method != http.MethodHead && status != http.StatusNoContent && status != http.StatusNotModified {
		if isLong, err = c.discardBody(in, &response.Header); err != nil {
			return false, failed(ctx, reading, err)
		}
	}
	response.Header.SetNoDefaultContentType(true)
	header := make(http.Header, response.Header.Len())
	for name, value := range response.Header.All() {
		header[string(name)] = append(header[string(name)], string(value))
	}
	c.Tell(answer, answered, status, header)
	// With unread bytes the next answer could not be recognized.
	return !isLong && !response.ConnectionClose() && in.Buffered() == 0, nil
}

// discardBody reads the body of an answer and its trailer.
func (c *http1) discardBody(in *bufio.Reader, head *fasthttp.ResponseHeader) (isLong bool, err error) {
	switch length := head.ContentLength(); {
	case length == -1: // fasthttp takes the end of a connection for that of a body in chunks
		if isLong, err = c.discard(httputil.NewChunkedReader(in)); err == nil && !isLong {
			_ = head.ReadTrailer(in) // what is left of it shows later
		}
		return isLong, err
	case length < 0:
		return c.discard(in)
	case length < maxBody:
		_, err = in.Discard(length)
		return false, err
	}
	c.long.Add(1)
	return true, nil
}
