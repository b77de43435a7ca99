package endpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// messageHead is the number of bytes before a message: whether it is compressed, and its length.
	messageHead = 5
	// maxMessage is the longest answer in bytes.
	maxMessage = 1 << 20
)

// Errors about an answer.
var (
	errNotGRPC     = errors.New("the answer is not one of gRPC; is this the gRPC port?")
	errLongMessage = errors.New("the answer is longer than " + strconv.Itoa(maxMessage>>10) + " KiB")
	errCompressed  = errors.New("the answer is compressed, although no compression was offered")
	errFailedCall  = errors.New("the call failed")
)

// notGRPC is the error about an answer that is not gRPC.
func notGRPC(err error) error {
	return &sendError{text: err.Error(), kind: store.ErrOutcomeUnknown, cause: err}
}

// call makes a gRPC call, with a message that begins with space for its head. It fills in the times, the status
// and, if the call failed, the outcome and the reason. Otherwise it returns the answer's message.
func (c *rlsClient) call(ctx context.Context, message []byte, answer *Answer) ([]byte, error) {
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-messageHead))
	*answer = Answer{}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(c.timeout())
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	header := c.header.Clone()
	header.Set("Grpc-Timeout", deadlineText(time.Until(deadline)))
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { answer.Sent = time.Now() }}
	request := (&http.Request{
		Method: http.MethodPost, URL: c.url, Host: c.url.Host, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: header,
		Body:   io.NopCloser(bytes.NewReader(message)), ContentLength: int64(len(message)),
		// The call is sent again only if the service said that it did not process it.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(message)), nil },
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, c.failed(ctx, awaiting, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, messageHead+maxMessage+1))
	if err != nil {
		return nil, c.failed(ctx, inBody, err)
	}
	// Headers may come before the service has decided, so the end of the message counts.
	answer.Answered = time.Now()
	return readCall(response, body, answer)
}

// readCall interprets the answer to a call whose body was read.
func readCall(response *http.Response, body []byte, answer *Answer) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		answer.Outcome, answer.Status = Failed, response.StatusCode
		answer.Reason = fmt.Sprintf("answered with HTTP status %d, which gRPC does not", response.StatusCode)
		return nil, nil
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/grpc") {
		return nil, notGRPC(errNotGRPC)
	}
	if len(body) > messageHead+maxMessage {
		return nil, notGRPC(errLongMessage)
	}
	end := response.Trailer
	if end.Get("Grpc-Status") == "" { // an answer without a message has them in its head
		end = response.Header
	}
	status, err := strconv.ParseUint(end.Get("Grpc-Status"), 10, 8)
	if err != nil {
		return nil, notGRPC(errNotGRPC)
	}
	if answer.Status = int(status); status != 0 {
		answer.Outcome, answer.Reason = Failed, "answered "+StatusText(int(status))
		if why := end.Get("Grpc-Message"); why != "" {
			if plain, err := url.PathUnescape(why); err == nil {
				why = plain
			}
			answer.Reason += ": " + why
		}
		return nil, nil
	}
	if len(body) < messageHead || int64(len(body)-messageHead) != int64(binary.BigEndian.Uint32(body[1:])) {
		return nil, notGRPC(errNotGRPC)
	}
	if body[0] != 0 {
		return nil, notGRPC(errCompressed)
	}
	return body[messageHead:], nil
}

// statusNames are the codes of gRPC by their numbers.
var statusNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// The codes that mean that the service, or something it needs, is away.
const (
	statusDeadlineExceeded = 4
	statusUnavailable      = 14
)

// statusName names a code of gRPC.
func statusName(code int) string {
	if code < len(statusNames) {
		return statusNames[code]
	}
	return "status " + strconv.Itoa(code)
}
