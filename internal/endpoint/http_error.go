package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
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
func (e *sendError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// stage is the stage at which a request failed.
type stage struct {
	kind error
	// late is the text if the time ended, ended if the connection ended, and wrong for other errors.
	late, ended, wrong string
}

var (
	connecting = stage{store.ErrUnavailable, "no connection in time", "the connection was closed at once",
		"the connection failed"}
	encrypting = stage{store.ErrUnavailable,
		"the TLS handshake did not end in time", "the server closed the connection in the TLS handshake",
		"the TLS handshake failed"}
	writing = stage{store.ErrOutcomeUnknown,
		"the server did not take the request in time", "the server closed the connection without an answer",
		"the connection failed"}
	awaiting = stage{store.ErrOutcomeUnknown,
		"no answer in time", "the server closed the connection without an answer", "the connection failed"}
	inHead = stage{store.ErrOutcomeUnknown,
		"the answer's headers did not end in time", "the connection ended in the middle of the answer's headers",
		errNotHTTP.Error()}
	inBody = stage{store.ErrOutcomeUnknown,
		"the answer's body did not end in time", "the connection ended in the middle of the answer's body",
		"the answer's body is malformed"}
)

// answerError is an error about an answer, with a text of ours.
type answerError string

// Error returns the text.
func (e answerError) Error() string { return string(e) }

// Errors about an answer.
const (
	errGreeting      = answerError("the server sent an answer before it was asked")
	errLongHead      = answerError("the answer's headers are longer than 64 KiB")
	errNotHTTP       = answerError("the answer is not HTTP/1.1")
	errSwitched      = answerError("the server changed to another protocol (101 Switching Protocols)")
	errSpeaksTLS     = answerError("the server speaks TLS; write https://")
	errNoCertificate = answerError("the server wants a certificate; give --cert and --key")
	errNoHTTP2       = answerError("the server does not speak HTTP/2 over TLS; leave out --http2")
	errHTTP2         = answerError("the server broke the rules of HTTP/2, or does not speak it")
	errHTTP2GoAway   = answerError("the server ended the HTTP/2 connection (GOAWAY)")
	errHTTP2Refused  = answerError("the server reset the HTTP/2 stream")
)

// failed returns the error of a request that ended at a stage.
func failed(ctx context.Context, at stage, err error) error {
	if gaveUp := store.GaveUp(ctx); ctx.Err() != nil && gaveUp != nil {
		return gaveUp
	}
	var own *sendError
	if errors.As(err, &own) {
		return own
	}
	if errors.Is(err, store.ErrInvalid) {
		return err
	}
	if ctx.Err() != nil { // a Transport returns the cause and not the context's error
		return &sendError{at.late, at.kind, err, true}
	}
	text := textOf(at, err)
	return &sendError{text, at.kind, err, text == at.late}
}

// textOf describes an error in words that are the same for equal errors.
func textOf(at stage, err error) string {
	var (
		unknownHost *net.DNSError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		record      tls.RecordHeaderError
		alert       *net.OpError
		number      syscall.Errno
	)
	if own := answerError(""); errors.As(err, &own) {
		return string(own)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), sys.IsTimeout(err):
		return at.late
	case errors.As(err, &unknownHost):
		return "the name of the host is not known"
	case errors.As(err, &record):
		return "the server does not speak TLS; write http://"
	case errors.As(err, &authority):
		return "the server's certificate is signed by an unknown authority; give --cacert or --insecure"
	case errors.As(err, &hostname):
		return "the server's certificate is for another name; give --insecure"
	case errors.As(err, &certificate):
		return "the server's certificate is not valid; look at it, or give --insecure"
	case errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "application protocol"):
		return errNoHTTP2.Error()
	case strings.Contains(err.Error(), "tls: certificate required"):
		return errNoCertificate.Error()
	case errors.As(err, &alert) && alert.Op == "remote error": // the text of an alert is one of a few
		return "the server ended the TLS connection: " + alert.Err.Error()
	case errors.As(err, &number):
		return textOfErrno(at, number)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return at.ended
	}
	return at.wrong
}

// textOfErrno describes an error of the system.
func textOfErrno(at stage, number syscall.Errno) string {
	switch number {
	case syscall.ECONNREFUSED:
		return "connection refused"
	case syscall.ECONNRESET, syscall.EPIPE:
		return at.ended // a system can report an end as a reset, if something was unread
	case syscall.EADDRNOTAVAIL:
		return "this machine has no free port left for another connection; use a lower rate, or keep connections open"
	case syscall.EMFILE, syscall.ENFILE:
		return "this machine allows no more open files; raise ulimit -n, or lower --workers"
	default:
		return number.Error()
	}
}

// StatusText returns a status in words: "503 Service Unavailable", or "UNAVAILABLE" for gRPC.
func StatusText(status int) string {
	if status < http.StatusContinue {
		return rls.CodeWord(codes.Code(status))
	}
	text := http.StatusText(status)
	if text == "" {
		return strconv.Itoa(status)
	}
	return strconv.Itoa(status) + " " + text
}

// NotAnswered returns the error for the outcome [Failed]: the status, or the given reason.
func NotAnswered(answer *Answer) error {
	text := answer.Reason
	if text == "" {
		text = StatusText(answer.Status)
	}
	return &sendError{text: text, kind: store.ErrOutcomeUnknown}
}
