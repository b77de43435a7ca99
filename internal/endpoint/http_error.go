package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"

	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sendError says why there was no answer. Its text contains nothing that differs between requests, such as a port,
// so that equal errors can be counted.
type sendError struct {
	text  string
	kind  error // store.ErrUnavailable, or store.ErrOutcomeUnknown if something was sent
	cause error
	late  bool // its time was over
}

// Timeout reports whether the request's time was over.
func (e *sendError) Timeout() bool { return e.late }

// Error returns the text.
func (e *sendError) Error() string { return e.text }

// Unwrap returns the kind and the cause.
func (e *sendError) Unwrap() []error { return []error{e.kind, e.cause} }

// stage is the stage at which a request failed.
type stage struct {
	kind error
	// late is the text if the time ended, ended if the connection ended, and wrong for other errors.
	late, ended, wrong string
}

const notTheProtocol = "the server broke the rules of the protocol, or speaks another"

var (
	connecting = stage{store.ErrUnavailable, "no connection in time", "the connection was closed at once",
		"the connection failed"}
	awaiting = stage{store.ErrOutcomeUnknown, "no answer in time", "the server closed the connection without an answer",
		notTheProtocol}
	reading = stage{store.ErrOutcomeUnknown, "the answer did not end in time",
		"the connection ended in the middle of the answer", notTheProtocol}
)

// Errors about an answer, whose texts are shown as they are.
var (
	errLongHead   = errors.New("the answer's headers are longer than 64 KiB")
	errNoHTTP2    = errors.New("the server does not speak HTTP/2 over TLS; leave out --http2")
	errProtocol   = errors.New(notTheProtocol)
	errFailedCall = errors.New("the call failed")
)

// failed returns the error of a request that ended at a stage.
func failed(ctx context.Context, at stage, err error) error {
	if gaveUp := store.GaveUp(ctx); ctx.Err() != nil && gaveUp != nil {
		return gaveUp
	}
	var own *sendError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, store.ErrInvalid):
		return err
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), sys.IsTimeout(err):
		return &sendError{at.late, at.kind, err, true}
	}
	return &sendError{textOf(at, err), at.kind, err, false}
}

// textOf describes an error in words that are the same for equal errors.
func textOf(at stage, err error) string {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		operation   *net.OpError
		number      syscall.Errno
	)
	is := func(errs ...error) bool {
		return slices.ContainsFunc(errs, func(one error) bool { return errors.Is(err, one) })
	}
	switch {
	case is(errLongHead, errNoHTTP2, errProtocol):
		return err.Error()
	case errors.As(err, new(*net.DNSError)):
		return "the name of the host is not known"
	case errors.As(err, &record):
		return "the server does not speak TLS; write http://"
	case errors.As(err, &certificate):
		return "the server's certificate is not trusted: " + certificate.Err.Error() + "; give --cacert or --insecure"
	case errors.As(err, &operation) && operation.Op == "remote error": // the text of an alert is one of a few
		return "the server ended the TLS connection: " + operation.Err.Error()
	case is(syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed):
		return at.ended // a system can report an end as a reset, if something was unread
	case errors.As(err, &number):
		return number.Error()
	}
	return at.wrong
}

// StatusText returns a status in words: "503 Service Unavailable", or "UNAVAILABLE" for gRPC.
func StatusText(status int) string {
	if status < http.StatusContinue {
		return rls.CodeWord(codes.Code(status))
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// NotAnswered returns the error for the outcome [Failed]: the status, or the given reason.
func NotAnswered(answer *Answer) error {
	text := answer.Reason
	if text == "" {
		text = StatusText(answer.Status)
	}
	return &sendError{text: text, kind: store.ErrOutcomeUnknown, cause: errFailedCall}
}
