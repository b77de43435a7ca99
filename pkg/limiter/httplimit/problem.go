package httplimit

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Types of problems that draft-ietf-httpapi-ratelimit-headers registers.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// A type of problem has one title for all requests (RFC 9457, section 3.1.3).
const (
	exceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"
	reducedTitle  = "Request cannot be satisfied due to temporary server capacity constraints"
)

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
	return &Problem{Type: QuotaExceeded, Title: exceededTitle, Status: status, ViolatedPolicies: deniedBy}
}

// Write answers with the problem and its status. It forbids caches to keep the answer, which is for one client and
// one instant.
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: it has only texts and a number
		body = nil
	}
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Del("Content-Length")
	w.WriteHeader(p.Status)
	w.Write(body) // an error means that the client has left
}

// WriteFailure answers a request for which there is no decision: with 400 if the request lacks something
// ([limiter.ErrInvalid]), with 503 and Retry-After if the store is away or the time is over, else with 500. It says
// what the client can change, and nothing about the store.
func WriteFailure(w http.ResponseWriter, err error) {
	problem := Problem{Title: "Request cannot be decided", Status: http.StatusInternalServerError}
	switch {
	case errors.Is(err, store.ErrInvalid):
		problem = Problem{Title: "Request cannot be counted", Status: http.StatusBadRequest, Detail: err.Error()}
		if never, is := errors.AsType[*store.NeverFitsError](err); is {
			public := *never
			public.Request.Key.Subject = "" // the service may have attributes of its own in it
			problem.Detail = public.Error()
		}
	case isForLater(err):
		w.Header().Set(retryAfterField, "1") // nobody knows when the store is back
		problem = Problem{Type: ReducedCapacity, Title: reducedTitle, Status: http.StatusServiceUnavailable}
	}
	problem.Write(w)
}

// isForLater reports whether the same request can succeed later.
func isForLater(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrGaveUp)
}
