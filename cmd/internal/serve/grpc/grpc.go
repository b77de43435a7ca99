// Package grpc answers unary gRPC calls over HTTP/2: a small server for methods that read and write
// their messages themselves.
//
// It is what a rate limit service needs of gRPC, and no more: no streams of messages, no
// compression, no reflection. It registers nothing, so that a program that links it starts as fast
// as before. Frames and header compression are golang.org/x/net/http2's.
package grpc

import (
	"context"
	"fmt"
	"time"
)

// A Method answers one call. It appends its message to response, and returns that. Both slices
// are its own until it returns. ctx ends with the caller's deadline, and when the caller gives up.
//
// An error that is not a [*Status] is told as [Internal], without its text.
type Method func(ctx context.Context, request, response []byte) ([]byte, error)

// Code says how a call ended, as gRPC numbers it.
type Code uint8

// The codes that are used here.
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
)

// Status is an error that the caller is told.
type Status struct {
	Code    Code
	Message string
}

func (s *Status) Error() string { return fmt.Sprintf("grpc status %d: %s", s.Code, s.Message) }

// Bounds are what clients can make the server hold. A zero field stands for its default.
type Bounds struct {
	// MessageBytes is the size of a request's message: 256 KiB.
	MessageBytes int
	// HeaderBytes is the size of a request's headers, as HTTP/2 counts them: 16 KiB.
	HeaderBytes uint32
	// Streams is how many calls one connection may have at once: 1,000.
	Streams uint32
	// BufferedBytes is how much of requests that are not complete yet is held on all connections
	// together: 64 MiB. Who sends more is told that it is exhausted.
	BufferedBytes int64
	// UnreadBytes is how much of answers is held for clients that do not read them, on all connections
	// together: 64 MiB. Beyond that, connections end that leave more than a few unread.
	UnreadBytes int64
	// Stall is how long a client may take for a handshake, for a request once it has begun, and to
	// read an answer: 10 s.
	Stall time.Duration
	// Idle is how long a connection may be without a call: 1 h, which is Envoy's own bound.
	Idle time.Duration
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

// Gate bounds what is done at a time.
type Gate interface {
	// Enter reports whether one more may begin. It ends with Leave.
	Enter() bool
	Leave()
}

// Options are what a server answers, and within which bounds.
type Options struct {
	// Methods are by their paths, such as "/package.Service/Method".
	Methods map[string]Method
	Bounds  Bounds
	// Gate, if not nil, bounds how many calls are decided at a time. Those beyond are told that the
	// server is unavailable.
	Gate Gate
	// OnBug, if set, is told each panic of a method, which the caller is told as [Internal].
	OnBug func(error)
	// OnEnd, if set, is told how each call ended. It is called by many at once, so it must be quick.
	OnEnd func(Code)
}
