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
			return false, failed(ctx, writing, wrong)
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
		if !held.LastUseTime().IsZero() { // it was idle
			if open, unasked := look(conn); unasked || !open {
				c.host.CloseConn(held)
				if unasked {
					return failed(ctx, connecting, errGreeting)
				}
				continue
			}
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
	to = append(append(to, c.Method...), ' ')
	to = c.target.append(to, subject, cost)
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), c.httpTarget.host...), "\r\n"...)
	for i := range c.headers {
		h := &c.headers[i]
		to = append(append(to, h.name...), ": "...)
		to = append(h.value.append(to, subject, cost), "\r\n"...)
	}
	if c.NoKeepAlive {
		to = append(to, "Connection: close\r\n"...)
	}
	var body []byte
	if c.hasBody {
		body = c.body.append(nil, subject, cost)
	}
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
	start, err := in.Peek(1)
	switch {
	case err != nil:
		return false, failed(ctx, awaiting, err)
	case start[0] == 0x15: // a TLS alert
		return false, failed(ctx, awaiting, errSpeaksTLS)
	case start[0] != 'H':
		return false, failed(ctx, awaiting, errNotHTTP)
	}
	response.StreamBody, response.SkipBody = true, c.Method == http.MethodHead
	err = response.ReadLimitBody(in, 0) // the head, after interim answers
	status := response.StatusCode()
	switch tooLong := (*fasthttp.ErrSmallBuffer)(nil); {
	case errors.As(err, &tooLong):
		return false, failed(ctx, inHead, errLongHead)
	case err != nil:
		return false, failed(ctx, inHead, err)
	case status == http.StatusSwitchingProtocols:
		return false, failed(ctx, inHead, errSwitched)
	case status < 200:
		return false, failed(ctx, inHead, errNotHTTP)
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
			return false, failed(ctx, inBody, err)
		case long:
			response.SetConnectionClose()
		case isChunked:
			_ = response.Header.ReadTrailer(in) // what is left of it shows below
		}
	}
	answer.Answered, answer.Status, answer.Header = answered, status, headerOf(&response.Header)
	// With unread bytes the next answer could not be recognized.
	answer.Outcome = c.outcomeOf(status)
	return !response.ConnectionClose() && in.Buffered() == 0, nil
}

// headerOf copies a header. All of its text is one string, to save time.
func headerOf(h *fasthttp.ResponseHeader) http.Header {
	h.SetNoDefaultContentType(true)
	fields, all := 0, make([]byte, 0, 1024)
	for name, value := range h.All() {
		fields, all = fields+1, append(append(all, name...), value...)
	}
	text, values, header := string(all), make([]string, fields), make(http.Header, fields)
	for name, value := range h.All() {
		key, end := text[:len(name)], len(name)+len(value)
		values[0] = text[len(name):end]
		if before, again := header[key]; again {
			header[key] = append(before, values[0])
		} else {
			header[key] = values[:1:1]
		}
		text, values = text[end:], values[1:]
	}
	return header
}
