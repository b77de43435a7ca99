package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// http2 is a client of HTTP/2, with a [http.Transport]. That repeats a request only if the server said that it did
// not process it.
type http2 struct {
	*httpTarget
	transport *http.Transport
}

func newHTTP2(t *httpTarget) *http2 {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return t.open(ctx) }
	return &http2{t, &http.Transport{
		Protocols: protocols, DialContext: dial, DialTLSContext: dial, DisableCompression: true,
		MaxResponseHeaderBytes: maxHead,
	}}
}

// Connect implements [Client]. The first request opens another connection, since a Transport cannot use an open one.
func (c *http2) Connect(ctx context.Context) error {
	conn, err := c.open(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Close implements [Client].
func (c *http2) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Send implements [Client].
func (c *http2) Send(ctx context.Context, subject string, cost int64, answer *Answer) error {
	*answer = Answer{}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	request, err := c.newRequest(ctx, subject, cost, answer)
	if err != nil {
		return err
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		at := awaiting
		if answer.Sent.IsZero() {
			at = connecting
		}
		return failed(ctx, at, err)
	}
	answered := time.Now()
	_, err = c.discard(response.Body)
	response.Body.Close()
	if err != nil {
		return failed(ctx, reading, err)
	}
	c.Tell(answer, answered, response.StatusCode, response.Header)
	return nil
}

// newRequest makes a request from the template.
func (c *http2) newRequest(ctx context.Context, subject string, cost int64, answer *Answer) (*http.Request, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if answer.Sent.IsZero() { // a repeated request may have been decided the first time
			answer.Sent = time.Now()
		}
	}})
	target, err := url.ParseRequestURI(c.target.expand(subject, cost))
	if err != nil {
		return nil, failed(ctx, connecting, err)
	}
	target.Scheme, target.Host = c.url.Scheme, c.url.Host
	request := &http.Request{
		Method: c.Method, URL: target, Host: c.host, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: make(http.Header, len(c.headers)),
	}
	for i := range c.headers {
		h := &c.headers[i]
		request.Header[h.name] = append(request.Header[h.name], h.value.expand(subject, cost))
	}
	if c.Body != "" {
		body := c.body.expand(subject, cost)
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return request.WithContext(ctx), nil
}
