package endpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// messageHead is the bytes before a message: whether it is compressed, and its length.
	messageHead = 5
	// maxMessage is the longest answer that is read, in bytes.
	maxMessage = 1 << 20
)

// errNotGRPC is the error of an answer that is not one of gRPC.
var errNotGRPC = errors.New("the answer is not one of gRPC; is this the gRPC port?")

// call makes a gRPC call, for a message with room for its head. It fills in when, the status and,
// if the call failed, the outcome and why. Else it returns the answer's message.
func (c *rlsClient) call(ctx context.Context, message []byte, answer *Answer) ([]byte, error) {
	binary.BigEndian.PutUint32(message[1:], uint32(len(message)-messageHead))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.method, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "User-Agent": {c.userAgent}}
	answer.Sent = time.Now()
	if deadline, limited := ctx.Deadline(); limited {
		request.Header["Grpc-Timeout"] = []string{deadlineText(deadline.Sub(answer.Sent))}
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, messageHead+maxMessage+1))
	if err != nil {
		return nil, err
	}
	// Headers may come before the service has decided, so the message's end counts.
	answer.Answered = time.Now()
	return readCall(response, body, answer)
}

// readCall judges the answer to a call whose body was read.
func readCall(response *http.Response, body []byte, answer *Answer) ([]byte, error) {
	if response.StatusCode != http.StatusOK {
		answer.Outcome, answer.Status = Failed, response.StatusCode
		answer.Reason = fmt.Sprintf("answered with HTTP status %d, which gRPC does not", response.StatusCode)
		return nil, nil
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/grpc") {
		return nil, errNotGRPC
	}
	if len(body) > messageHead+maxMessage {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxMessage)
	}
	end := response.Trailer
	if end.Get("Grpc-Status") == "" { // an answer without a message has them at its head
		end = response.Header
	}
	status, err := strconv.ParseUint(end.Get("Grpc-Status"), 10, 8)
	if err != nil {
		return nil, errNotGRPC
	}
	if answer.Status = int(status); status != 0 {
		answer.Outcome, answer.Reason = Failed, "answered "+statusName(int(status))
		if why := end.Get("Grpc-Message"); why != "" {
			if plain, err := url.PathUnescape(why); err == nil {
				why = plain
			}
			answer.Reason += ": " + why
		}
		return nil, nil
	}
	if len(body) < messageHead || int64(len(body)-messageHead) != int64(binary.BigEndian.Uint32(body[1:])) {
		return nil, errNotGRPC
	}
	if body[0] != 0 {
		return nil, errors.New("the answer is compressed, although no compression was offered")
	}
	return body[messageHead:], nil
}

// statusNames are the codes of gRPC by their numbers.
var statusNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// statusName names a code of gRPC.
func statusName(code int) string {
	if code < len(statusNames) {
		return statusNames[code]
	}
	return "with the unknown status " + strconv.Itoa(code)
}
