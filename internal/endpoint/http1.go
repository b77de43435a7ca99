package endpoint

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// http1 is a client of HTTP/1.1. Idle connections, buffers and the parser of answers are fasthttp's. The exchange is
// not its Do: that does not say when a request was written, and cannot be ended before its deadline.
type http1 struct {
	*httpTarget
	dialed
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
	c := &http1{httpTarget: t, dialed: newDialed(t.url.Hostname())}
	c.host = &fasthttp.HostClient{
		ConnPoolStrategy: fasthttp.LIFO, MaxConns: math.MaxInt, MaxIdleConnDuration: time.Minute, ReadBufferSize: maxHead,
		DialTimeout: func(_ string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := store.BudgetContext(context.Background(), timeout)
			defer cancel()
			return c.open(ctx, t)
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
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(c.timeout())
	}
	for ctx.Err() == nil {
		held, err := c.host.AcquireConn(max(time.Until(deadline), 1), c.NoKeepAlive)
		if err != nil {
			return failed(ctx, connecting, err)
		}
		conn := held.Conn()
		if isUsed := !held.LastUseTime().IsZero(); isUsed && !isIdle(conn) {
			c.host.CloseConn(held)
			continue
		}
		_ = conn.SetDeadline(deadline)
		unwatch := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		keep, err := use(conn)
		if unwatch() && keep && !c.NoKeepAlive {
			c.host.ReleaseConn(held)
		} else {
			c.host.CloseConn(held)
		}
		return err
	}
	return failed(ctx, connecting, ctx.Err())
}

func (t *httpTarget) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return unlimited
}

// appendRequest appends the bytes of a request.
func (c *http1) appendRequest(to []byte, subject string, cost int64) []byte {
	to = append(to, c.Method+" "+c.target.expand(subject, cost)+" HTTP/1.1\r\nHost: "+c.httpTarget.host+"\r\n"...)
	for i := range c.headers {
		to = append(to, c.headers[i].name+": "+c.headers[i].value.expand(subject, cost)+"\r\n"...)
	}
	if c.NoKeepAlive {
		to = append(to, "Connection: close\r\n"...)
	}
	body := c.body.expand(subject, cost)
	if c.hasBody || c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch {
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
	response.StreamBody, response.SkipBody = true, c.Method == http.MethodHead
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
	body, isChunked := response.BodyStream(), response.Header.ContentLength() == -1
	if isChunked && body != nil { // fasthttp takes the end of a connection for that of such a body
		body = httputil.NewChunkedReader(in)
	}
	if body != nil {
		long, err := c.discard(body)
		switch {
		case err != nil:
			return false, failed(ctx, reading, err)
		case long:
			response.SetConnectionClose()
		case isChunked:
			_ = response.Header.ReadTrailer(in) // what is left of it shows below
		}
	}
	response.Header.SetNoDefaultContentType(true)
	answer.Answered, answer.Status, answer.Outcome, answer.Header = answered, status, c.outcomeOf(status), http.Header{}
	for name, value := range response.Header.All() {
		answer.Header.Add(string(name), string(value))
	}
	// With unread bytes the next answer could not be recognized.
	return !response.ConnectionClose() && in.Buffered() == 0, nil
}
