package httplimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Outcome is the decision on an HTTP request.
type Outcome struct {
	requests  []store.Request
	decisions []store.Decision
	names     []string
	limits    []policy.Limit // of the policy that decided
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
		deniedBy = append(deniedBy, o.names[i])
	}
	problem := Denial(o.status, deniedBy)
	if len(deniedBy) > 0 && sum.RetryAfter > 0 {
		problem.Detail = fmt.Sprintf("The same request is allowed in %d s, if nothing else is asked until then.",
			wholeSeconds(sum.RetryAfter))
	}
	problem.Write(w)
}
