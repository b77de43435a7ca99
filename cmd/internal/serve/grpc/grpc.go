// Package grpc answers unary gRPC calls over HTTP/2, calls that watch a state, and dialogues: a small server for methods that
// read and write their messages themselves.
//
// It has only what a rate limit service needs: no other streams, and no compression. Frames and header compression come from
// golang.org/x/net/http2.
package grpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// A Method answers one call. It appends its message to response, and returns that. It must not keep either slice.
// ctx ends with the caller's deadline, and when the caller gives up.
//
// The caller gets an error that is not a [*Status] as [Internal], without its text.
type Method func(ctx context.Context, request, response []byte) ([]byte, error)

// A Watch answers a call that watches a state with a function for its message. The server sends that message, and again
// whenever it differs, which it checks with each sweep. The function must be quick. An error is one of [Method].
type Watch func(request []byte) (state func() []byte, err error)

// A Dialogue answers each message of a stream with one, while the stream lasts. It appends to response like a [Method], must be
// quick, and gets short messages only. An error is one of [Method], and ends the stream.
type Dialogue func(request, response []byte) ([]byte, error)

// Code is gRPC's number for the result of a call.
type Code uint8

// The codes that this package uses.
const (
	OK                 Code = 0
	Canceled           Code = 1
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	Unauthenticated    Code = 16
)

// Status is an error for the caller.
type Status struct {
	Code    Code
	Message string
}

func (s *Status) Error() string { return fmt.Sprintf("grpc status %d: %s", s.Code, s.Message) }

// statusOf is what the caller gets for the error of a method.
func statusOf(err error) *Status {
	if status, is := errors.AsType[*Status](err); is {
		return status
	}
	return &Status{Internal, "internal error"}
}

// Bounds limit what clients can make the server hold. A zero field means its default.
type Bounds struct {
	// MessageBytes is the most bytes of a request's message: 256 KiB.
	MessageBytes int
	// HeaderBytes is the most bytes of a request's headers, as HTTP/2 counts them: 16 KiB.
	HeaderBytes uint32
	// Streams is the most calls that one connection can have at once: 1,000.
	Streams uint32
	// BufferedBytes is the most bytes of incomplete requests on all connections together: 64 MiB. A call beyond
	// that fails as exhausted.
	BufferedBytes int64
	// UnreadBytes is the most bytes of answers that clients have not read, on all connections together: 64 MiB.
	// Beyond that, connections end that leave more than a few unread.
	UnreadBytes int64
	// Stall is the time that a client may take for a handshake, for a request once it has begun, and to read an
	// answer: 10 s.
	Stall time.Duration
	// Idle is how long a connection may be without a call: 1 h, which is Envoy's own bound.
	Idle time.Duration
	// Age is how long a connection may last, give or take a tenth, so that not all end at the same time. It then gets no new
	// calls, and ends with the last. The default is no bound.
	Age time.Duration
}

func (b *Bounds) setDefaults() {
	if b.MessageBytes == 0 {
		b.MessageBytes = 256 << 10
	}
	if b.HeaderBytes == 0 {
		b.HeaderBytes = 16 << 10
	}
	if b.Streams == 0 {
		b.Streams = 1000
	}
	if b.BufferedBytes == 0 {
		b.BufferedBytes = 64 << 20
	}
	if b.UnreadBytes == 0 {
		b.UnreadBytes = 64 << 20
	}
	if b.Stall == 0 {
		b.Stall = 10 * time.Second
	}
	if b.Idle == 0 {
		b.Idle = time.Hour
	}
}

// Gate bounds the calls under way.
type Gate interface {
	// Enter reports whether another call may begin. If so, the caller has to call Leave afterwards.
	Enter() bool
	Leave()
}

// Options are the methods and bounds of a server.
type Options struct {
	// Methods are by their paths, such as "/package.Service/Method".
	Methods map[string]Method
	// Watches are the methods that watch a state, by their paths.
	Watches map[string]Watch
	// Dialogues are the methods that answer each message, by their paths.
	Dialogues map[string]Dialogue
	Bounds    Bounds
	// Admits, if set, returns the status of a call that is refused for these values of its metadata authorization, or nil.
	// Open are the paths of methods that need none. It is called concurrently and must be quick.
	Admits func(authorization []string) *Status
	Open   map[string]bool
	// Gate, if not nil, bounds the calls that are decided at a time. Others fail as unavailable.
	Gate Gate
	// OnBug, if set, gets each panic of a method; the caller gets [Internal].
	OnBug func(error)
	// OnEnd, if set, gets the code of each call. It is called concurrently and must be quick.
	OnEnd func(Code)
	// OnCall, if set, gets each call that OnEnd gets, in the same way, and Caller, if set with it, gives the call's caller for the
	// values of its metadata authorization.
	OnCall func(*Call)
	Caller func(authorization []string) string
}

// Call is a call that has ended, for a log.
type Call struct {
	// Path is the path of the method, as the client sent it.
	Path string
	Code Code
	// Took is the time from the headers of the request until the answer was there.
	Took time.Duration
	From net.Addr
	// Caller is who called, if that is known. It is no secret.
	Caller string
}
