package endpoint

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// read reads an answer. keep says whether the connection can be reused.
func (c *conn) read(ctx context.Context, client *http1, answer *Answer) (keep bool, err error) {
	c.source.left = maxHead
	first, err := c.in.Peek(1)
	if err != nil {
		return false, failed(ctx, awaiting, c.headError())
	}
	if first[0] != 'H' {
		return false, failed(ctx, awaiting, notHTTP(c.in))
	}
	var response *http.Response
	for interims := 0; ; interims++ {
		if response, err = http.ReadResponse(c.in, client.request); err != nil {
			return false, failed(ctx, inHead, c.headError())
		}
		if response.StatusCode >= 200 {
			break
		}
		switch {
		case response.StatusCode == http.StatusSwitchingProtocols:
			return false, failed(ctx, inHead, errSwitched)
		case response.StatusCode < 100:
			return false, failed(ctx, inHead, errNotHTTP)
		case interims == maxInterims:
			return false, failed(ctx, inHead, errInterims)
		}
	}
	answered := time.Now()
	c.source.left = maxBody
	read, err := io.CopyN(io.Discard, response.Body, maxBody)
	switch {
	case err == nil && read == maxBody, c.source.left <= 0:
		client.long.Add(1)
		response.Close = true
	case err != nil && !errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false, failed(ctx, inBody, bodyError(err))
	}
	answer.Answered, answer.Status, answer.Header = answered, response.StatusCode, response.Header
	// With unread bytes the next answer could not be recognized.
	return !response.Close && c.in.Buffered() == 0, nil
}

// headError explains an error in the head of an answer.
func (c *conn) headError() error {
	switch {
	case c.source.left <= 0:
		return errLongHead
	case c.source.err != nil:
		return c.source.err
	}
	return errNotHTTP
}

// bodyError explains an error in the body of an answer.
func bodyError(err error) error {
	if text := err.Error(); strings.Contains(text, "chunk") || strings.Contains(text, "trailer") {
		return errBadChunk
	}
	return err
}

// notHTTP explains an answer that does not begin like HTTP.
func notHTTP(in *bufio.Reader) error {
	start, _ := in.Peek(min(in.Buffered(), 3))
	if len(start) >= 2 && start[0] == 0x15 && start[1] == 3 { // a TLS alert
		return errSpeaksTLS
	}
	return errNotHTTP
}
