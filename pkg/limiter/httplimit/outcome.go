package httplimit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/internal/limitfields"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Outcome is the decision on an HTTP request.
type Outcome struct {
	requests  []store.Request
	decisions []store.Decision
	limits    []policy.Limit // of the policy that decided; nil without one
	status    int
}

// Requests are the requests that were decided, one for each limit. A handler can refund them, such as after a
// successful login.
func (o *Outcome) Requests() []limiter.Request {
	if o == nil {
		return nil
	}
	requests := make([]limiter.Request, len(o.requests))
	for i := range o.requests {
		requests[i] = limiter.RequestOf(o.requests[i])
	}
	return requests
}

// Decisions are the decisions, in the order of Requests.
func (o *Outcome) Decisions() limiter.Decisions {
	if o == nil {
		return limiter.Decisions{}
	}
	return limiter.DecisionsOf(o.decisions)
}

type outcomeKey struct{}

// OutcomeOf returns the outcome of the request whose context is ctx. It is nil if the request is not limited; the
// methods of a nil Outcome return nothing. Of several nested middlewares it returns the innermost outcome.
func OutcomeOf(ctx context.Context) *Outcome {
	o, _ := ctx.Value(outcomeKey{}).(*Outcome)
	return o
}

// WriteDenial answers with the status of a denial and a problem of RFC 9457: the quota of certain limits is
// exceeded, or, if a failure policy denied because the store is away, the capacity is reduced for now.
func (o *Outcome) WriteDenial(w http.ResponseWriter) {
	sum := store.Summarize(o.decisions)
	var deniedBy []string
	for _, i := range sum.DeniedBy {
		deniedBy = append(deniedBy, limitfields.Name(o.limits, o.requests, i))
	}
	problem := Denial(o.status, deniedBy)
	if len(deniedBy) > 0 && sum.RetryAfter > 0 {
		problem.Detail = fmt.Sprintf("The same request is allowed in %d s, if nothing else is asked until then.",
			limitfields.WholeSeconds(sum.RetryAfter))
	}
	problem.Write(w)
}

// Types of problems that draft-ietf-httpapi-ratelimit-headers registers.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// reducedTitle is that of [ReducedCapacity]: a type of problem has one title for all requests (RFC 9457, 3.1.3).
const reducedTitle = "Request cannot be satisfied due to temporary server capacity constraints"

// Problem is the body of an error answer (RFC 9457).
type Problem struct {
	// Type is a URI; it may be empty if Status says everything.
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// ViolatedPolicies are the limits that denied, with their names in RateLimit-Policy.
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

// Denial returns the problem of a request that the limits with these names denied. Without names, a failure policy
// denied because the store is away.
func Denial(status int, deniedBy []string) *Problem {
	if len(deniedBy) == 0 {
		return &Problem{Type: ReducedCapacity, Title: reducedTitle, Status: status}
	}
	return &Problem{
		Type: QuotaExceeded, Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: status,
		ViolatedPolicies: deniedBy,
	}
}

// Write answers with the problem and its status. It forbids caches to keep the answer, which is for one client and
// one instant.
func (p *Problem) Write(w http.ResponseWriter) {
	body, _ := json.Marshal(p) // texts and a number, which cannot fail
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Del("Content-Length")
	w.WriteHeader(p.Status)
	w.Write(body) // an error means that the client has left
}

// WriteFailure answers a request for which there is no decision: with 400 if the request lacks something
// ([limiter.ErrInvalid]), with 503 and Retry-After if the store is away or the time is over, else with 500. It says
// what the client can change, and nothing about the store. For a [*limiter.DeniedError] use [Denial].
func WriteFailure(w http.ResponseWriter, err error) {
	problem := Problem{Title: "Request cannot be decided", Status: http.StatusInternalServerError}
	never, neverFits := errors.AsType[*store.NeverFitsError](err)
	switch {
	case neverFits:
		public := *never
		public.Request.Key.Subject = "" // the service may have attributes of its own in it
		err = &public
		fallthrough
	case errors.Is(err, store.ErrInvalid):
		problem = Problem{Title: "Request cannot be counted", Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrOutcomeUnknown), errors.Is(err, store.ErrGaveUp):
		w.Header().Set("Retry-After", "1") // nobody knows when the store is back
		problem = Problem{Type: ReducedCapacity, Title: reducedTitle, Status: http.StatusServiceUnavailable}
	}
	problem.Write(w)
}
