// Package endpoint sends requests to endpoints, whose limits somebody else decides: HTTP services and Envoy's rate
// limit services.
package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/rls"
)

// Client sends requests to one endpoint. Its methods are safe for concurrent use.
type Client interface {
	// Connect checks that somebody listens, without a request that a limit could count.
	Connect(ctx context.Context) error
	// Send sends one request of a subject at a cost, and fills in the answer. An error says that no answer came;
	// then it is unknown whether the request was counted.
	Send(ctx context.Context, subject string, cost int64, answer *Answer) error
	// Places reports whether the subject and the cost occur in a request.
	Places() (subject, cost bool)
	// Describe names the endpoint for a report, without a password.
	Describe() string
	// Openings describes the connections that were opened so far.
	Openings() Openings
	Close() error
}

// Openings are the connections that a client opened.
type Openings struct {
	Count int64
	// Connect is the time to connect, and TLS the time of the handshake after that, in microseconds. TLS is empty
	// without encryption.
	Connect, TLS *hdrhistogram.Histogram
	// LongBodies counts the answers with a body so long that its rest was not read.
	LongBodies int64
}

// Outcome is the meaning of an answer.
type Outcome uint8

const (
	// Allowed: the request was let through.
	Allowed Outcome = iota
	// Denied: a limit denied the request.
	Denied
	// Failed: the endpoint could not answer. It is unknown whether the request was counted.
	Failed
)

// Answer is the answer of an endpoint to one request.
type Answer struct {
	// Sent is the instant before the first byte of the request was written, and Answered that at which the answer's
	// head was read. The endpoint decided in between. Sent is zero if nothing was written, because there was no
	// connection.
	Sent, Answered time.Time
	Outcome        Outcome
	// Status is the HTTP status, or that of the gRPC call.
	Status int
	// Reason says why the endpoint failed, in words that follow its name; empty if the status says everything.
	Reason string
	// Header is the answer's header, or the fields that a rate limit service wants its caller to send.
	Header http.Header
	// Statuses are those of the descriptors, in the answer of a rate limit service.
	Statuses []rls.Status
}
