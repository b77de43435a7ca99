// Package endpoint sends requests to limits that somebody else decides: HTTP services and
// Envoy's rate limit services.
package endpoint

import (
	"context"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Client sends requests to one endpoint. Its methods may be called by many goroutines at once.
type Client interface {
	// Connect finds out that somebody listens, without a request that a limit could count.
	Connect(ctx context.Context) error
	// Send sends one request of a subject at a cost, and fills in what was answered. An error
	// says that no answer came; whether the request was counted is not known then.
	Send(ctx context.Context, subject string, cost int64, answer *Answer) error
	// Describe names the endpoint for a report, without a password.
	Describe() string
	Close() error
}

// Templated is a [Client] whose requests are made of a template.
type Templated interface {
	// Places says whether the subject and the cost stand anywhere in a request.
	Places() (subject, cost bool)
}

// Connected is a [Client] that counts the connections that it opens.
type Connected interface {
	// Openings is about the connections that were opened until now.
	Openings() Openings
}

// Openings are the connections that a client opened.
type Openings struct {
	Count int64
	// Connect is how long it took to reach the other side, and TLS how long to agree on
	// encryption after that, in microseconds. TLS is empty where there is none.
	Connect, TLS *hdrhistogram.Histogram
	// LongBodies is how many answers had a body so long that its rest was not read.
	LongBodies int64
}

// Outcome is what an answer means for who asked.
type Outcome uint8

const (
	// Allowed: the request was let through.
	Allowed Outcome = iota
	// Denied: a limit turned it away.
	Denied
	// Failed: the endpoint could not answer. Whether the request was counted is not known.
	Failed
)

// Answer is what an endpoint answered to one request.
type Answer struct {
	// Sent is the instant before the first byte of the request was written, and Answered that
	// at which the answer's head was read. The endpoint decided in between. Sent is zero if
	// nothing was written, because there was no connection.
	Sent, Answered time.Time
	Outcome        Outcome
	// Status is the HTTP status, or that of the gRPC call.
	Status int
	// Reason is why the endpoint failed, in words that follow its name; empty if all is said by
	// the status.
	Reason string
	// Header is the answer's, or the fields that a rate limit service wants its caller to tell. It
	// must not be changed.
	Header http.Header
	// Limits are what a rate limit service told of its limits, besides the header.
	Limits []ToldLimit
}

// ToldLimit is what a rate limit service told of a limit.
type ToldLimit struct {
	// Name is what the service calls the limit. It may be empty.
	Name string
	// Descriptor is the index of the descriptor that the limit is of.
	Descriptor int
	// Denied: the limit is exceeded.
	Denied bool
	// Count is how many units there are in a Period, which is 0 if it was not told.
	Count  int64
	Period time.Duration
	// Remaining is the units that are left.
	Remaining int64
	// ResetAfter is the duration until the reset, if ResetKnown. Services differ in what they mean
	// by it: when all is unused, when the window ends, or, for a denial, when to ask again.
	ResetAfter time.Duration
	ResetKnown bool
}
